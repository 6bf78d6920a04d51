"""Benchmark of other users' latency under load: `python tests/bench/service/crowd.py [--seconds N]`.

Starts `cmsfs serve`, and from a process of its own 300 bodies that do not come, 300 idle connections and 200
uploads at once, again and again.  The table shows how long one caller's requests take, before and meanwhile.
Nothing here asserts anything.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import trio

HALF = b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


async def _connect(url: str, first: bytes) -> None:
    """Connections of one kind: each is reopened when it closes."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    while True:
        try:
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                if first:
                    await stream.send_all(first)
                while await stream.receive_some():
                    pass
        except (OSError, trio.BrokenResourceError):
            pass
        await trio.sleep(0.1)


async def _upload(client: httpx.AsyncClient, url: str) -> None:
    async def body(name: str) -> AsyncIterator[bytes]:
        attributes = json.dumps({"name": name, "parent": {"id": "0"}})
        yield (
            f'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n{attributes}\r\n'
            f'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        ).encode()
        for _ in range(10):
            yield bytes(10_000)
            await trio.sleep(0.5)
        yield b"\r\n--edge--\r\n"

    headers = {"content-type": "multipart/form-data; boundary=edge"}
    while True:
        try:
            await client.post(f"{url}/api/2.0/files/content", content=body(uuid.uuid4().hex), headers=headers)
        except httpx.HTTPError:
            await trio.sleep(0.1)


async def _crowd(url: str, token: str) -> None:
    limits = httpx.Limits(max_connections=None)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(headers={"authorization": token}, limits=limits, timeout=60)
        )
        nursery = await stack.enter_async_context(trio.open_nursery())
        for _ in range(300):
            nursery.start_soon(_connect, url, HALF)
            nursery.start_soon(_connect, url, b"")
        for _ in range(200):
            nursery.start_soon(_upload, client, url)


def _measured(client: httpx.Client, url: str, seconds: float) -> list[float]:
    found = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.perf_counter()
        client.get(f"{url}/2.0/folders/0/items?limit=20").raise_for_status()
        found.append((time.perf_counter() - began) * 1000)
        time.sleep(0.01)
    return sorted(found)


def _row(name: str, times: list[float]) -> None:
    shown = [times[min(len(times) - 1, int(len(times) * share))] for share in (0.5, 0.9, 0.99, 1)]
    print(f"{name:12}" + "".join(f"{one:10.1f}" for one in shown) + f"{len(times):10}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--crowd", nargs=2)
    given = parser.parse_args()
    if given.crowd:
        trio.run(_crowd, *given.crowd)
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "cmsfs", "serve", "--data", folder, "--port", "0", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert server.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += server.stdout.readline()
        url = json.loads(said)["url"]
        token = f"Bearer {_token(url, Path(folder))}"
        crowd = [sys.executable, __file__, "--crowd", url, token]
        print(f"{'ms':12}{'p50':>10}{'p90':>10}{'p99':>10}{'most':>10}{'requests':>10}")
        with httpx.Client(headers={"authorization": token}, timeout=60) as client:
            _row("alone", _measured(client, url, given.seconds / 4))
            others = subprocess.Popen(crowd)
            time.sleep(3)
            _row("in a crowd", _measured(client, url, given.seconds))
        others.kill()
        server.terminate()
        others.wait()
        server.wait()


def _token(url: str, folder: Path) -> str:
    known: dict[str, Any] = json.loads((folder / "credentials.json").read_text(encoding="utf-8"))
    form = {
        "grant_type": "client_credentials",
        "client_id": known["client_id"],
        "client_secret": known["client_secret"],
        "box_subject_type": "user",
        "box_subject_id": known["user_id"],
    }
    return str(httpx.post(f"{url}/oauth2/token", data=form).json()["access_token"])


if __name__ == "__main__":
    main()
