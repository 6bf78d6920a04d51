"""Many drives in long poll: their memory, and how soon each is notified of an event."""

import json
import random
import statistics
import time
from typing import Any

import trio

from tests.bench.service.scale.load import get, request
from tests.bench.service.scale.serving import Running

_SECONDS = 120
# By then the table and the caches of a process have reached their size.
_WARM = 20


class _Drive:
    """One user's repeated long poll."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.told = trio.Event()
        self.at = 0.0
        self._request = get(token, "/events/wait", stream_position="now")

    async def run(self, ready: trio.CapacityLimiter, task_status: trio.TaskStatus[None]) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            async with ready:
                await ask(stream, get(self.token, "/users/me"))
            task_status.started()
            while True:
                body = json.loads(await ask(stream, self._request))
                if body.get("message") == "new_change":
                    self.at = trio.current_time()
                    self.told.set()


async def ask(stream: trio.SocketStream, what: bytes) -> bytes:
    await stream.send_all(what)
    got = b""
    while b"\r\n\r\n" not in got:
        data = await stream.receive_some(65536)
        assert data, "the connection ended"
        got += data
    head, _, body = got.partition(b"\r\n\r\n")
    assert head[9:12] in (b"200", b"201"), got
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += await stream.receive_some(65536)
    return body


def measure(running: Running, drives: int, writes: int) -> dict[str, float]:
    """Measure so many drives, spread evenly over the processes; each write is by one user, at any process."""
    return trio.run(_measure, running, drives, writes)


async def _measure(running: Running, count: int, writes: int) -> dict[str, float]:
    tokens = running.facts["tokens"]
    drives = [
        _Drive(running.ports[number % len(running.ports)], tokens[number % len(tokens)])
        for number in range(count)
    ]
    delays, found = [], []
    async with trio.open_nursery() as nursery:
        writers = [await trio.open_tcp_stream("127.0.0.1", port) for port in running.ports]
        for stream in writers:
            for _ in range(_WARM):
                await _write(stream, tokens[0])
        before = running.memory()
        ready = trio.CapacityLimiter(50)
        for drive in drives:
            await nursery.start(drive.run, ready)
        await _quiet(running)
        after = running.memory()
        worked = running.worked()
        for number in range(writes):
            drive = random.choice(drives)
            drive.told = trio.Event()
            began = trio.current_time()
            await _write(writers[number % len(writers)], drive.token)
            written = trio.current_time()
            with trio.fail_after(_SECONDS):
                await drive.told.wait()
            delays.append((drive.at - began) * 1000)
            found.append((written - began) * 1000)
        each = [(now - then) / writes for now, then in zip(running.worked(), worked, strict=True)]
        nursery.cancel_scope.cancel()
    delays.sort()
    return {
        "memory": max(after),
        "memory each": sum(now - then for now, then in zip(after, before, strict=True)) * 1024 / count,
        "p50": delays[len(delays) // 2],
        "p99": delays[len(delays) * 99 // 100],
        "write": statistics.median(found),
        "service": each[0],
        "database": each[1],
    }


async def _quiet(running: Running) -> None:
    """Wait until the processes are idle, with all long polls established."""
    before = running.worked()[0]
    for _ in range(60):
        await trio.sleep(1)
        now = running.worked()[0]
        if now - before < 50:
            return
        before = now


async def _write(stream: trio.SocketStream, token: str) -> Any:
    body = json.dumps({"name": f"w {time.time_ns()}", "parent": {"id": "0"}}).encode()
    return await ask(stream, request(token, "POST", "/2.0/folders", body))
