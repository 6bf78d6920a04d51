"""Baseline: the cost of a trivial response, for our server and others that are installed.

`python tests/bench/service/hello.py SERVER PORT` serves; `rows` measures all, each in a process of its own.
"""

import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The Python that has the other servers need not have it.
    from starlette import types

SERVERS = {"cmsfs": "cmsfs", "uvicorn": "uvicorn, httptools, uvloop", "granian": "granian"}

# As long as the answer about a file is.
BODY = b'{"hello": "' + b"x" * 1200 + b'"}'


async def hello(scope: "types.Scope", receive: "types.Receive", send: "types.Send") -> None:
    """The application."""
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


def processor(pid: int) -> float:
    """Return the processor time of a process, its children and its ended threads in milliseconds."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        return 0.0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return time.clock_gettime(clock.value) * 1000 + sum(processor(int(one)) for one in children)


def ask(sock: socket.socket, request: bytes) -> bytes:
    """Send a request over a kept connection and return the response body: a client with hardly any cost."""
    sock.sendall(request)
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(65536)
    head, _, body = got.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields[b"content-length"]):
        body += sock.recv(65536)
    if head[9:12] not in (b"200", b"201"):
        raise RuntimeError(got.decode("latin-1"))
    return body


def cost(port: int, pid: int, request: bytes, *, times: int = 500) -> float:
    """Return the processor time of a request in milliseconds: the best of three series."""
    best = float("inf")
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(4):  # the first one warms up
            before = processor(pid)
            for _ in range(times):
                ask(sock, request)
            best = min(best, (processor(pid) - before) / times)
    return best


def rows(others: str = sys.executable) -> Iterator[tuple[str, float]]:
    """Each server that is installed, and what a bare answer costs it; `others`: the Python that has them."""
    for name, shown in SERVERS.items():
        python = sys.executable if name == "cmsfs" else others
        looked = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
        if subprocess.run([python, "-c", looked, name]).returncode == 0:
            with _serving(name, python) as (port, pid):
                yield shown, cost(port, pid, b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n")


@contextmanager
def _serving(name: str, python: str) -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([python, __file__, name, str(port)], stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def main() -> None:
    name, port = sys.argv[1], int(sys.argv[2])
    if name == "uvicorn":
        # By name: they are asked for where they are installed, and typed nowhere.
        uvicorn = importlib.import_module("uvicorn")
        uvicorn.run(hello, port=port, loop="uvloop", http="httptools", log_level="critical", access_log=False)
    elif name == "granian":
        granian = importlib.import_module("granian")
        os.chdir(Path(__file__).parent)
        granian.Granian("hello:hello", port=port, interface="asgi", log_enabled=False).serve()
    else:
        import trio

        from cmsfs.service.server.http1 import Http1Server

        async def serve() -> None:
            server = Http1Server(hello, scheme="http", keep_alive_seconds=75)
            await trio.serve_tcp(server.serve, port, host="127.0.0.1")

        trio.run(serve)


if __name__ == "__main__":
    main()
