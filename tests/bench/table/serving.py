"""The row of the service alone: the cost of a request compared with a bare "hello", and of a GiB."""

import contextlib
import json
import os
import socket
import ssl
import time
from collections.abc import Iterator

from tests.bench.service import hello
from tests.bench.table.comparison import Comparison, Found, ShownFigure
from tests.bench.table.contenders import Contender
from tests.bench.table.stage import MIB, Stage, processor

# The Python that has other servers, where one was made for them.
PYTHON = "CMSFS_BENCH_SERVERS"
_BOUND = b"zzzz"


def _serving(stage: Stage, who: Contender, scale: float) -> Found:
    found = {f"hello-{name.split(',')[0]}": cost for name, cost in _hellos()}
    for tls in (False, True):
        kind = "tls" if tls else "clear"
        with stage.playing(tls=tls):
            token = stage.token(tls=tls).encode()
            if not tls:
                head = b"Host: localhost\r\nAuthorization: Bearer " + token + b"\r\n\r\n"
                asked = b"GET /2.0/files/%s HTTP/1.1\r\n" % stage.ids["small"].encode() + head
                found["item"] = hello.cost(stage.port, stage.service, asked)
                found["upload"] = _small_uploads(stage, token)
            with _connected(stage, tls) as sock:
                for way, moved in (("received", _send), ("sent", _fetch)):
                    before, began = processor(stage.service), time.perf_counter()
                    size = moved(sock, stage, token, scale)
                    found[f"{way}-{kind}"] = (processor(stage.service) - before) * 2**30 / size
                    found[f"{way}-{kind}-rate"] = size / (time.perf_counter() - began) / 1e6
    return found


def _hellos() -> Iterator[tuple[str, float]]:
    yield from hello.rows(os.environ[PYTHON]) if PYTHON in os.environ else hello.rows()


@contextlib.contextmanager
def _connected(stage: Stage, tls: bool) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", stage.port)) as plain:
        if not tls:
            yield plain
            return
        context = ssl.create_default_context(cafile=stage.ca_file)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped:
            yield wrapped


def _upload(token: bytes, name: str, size: int) -> tuple[bytes, bytes]:
    """Return the parts of an upload before and after the file's bytes."""
    said = json.dumps({"name": name, "parent": {"id": "0"}}).encode()
    part = b"--" + _BOUND + b'\r\nContent-Disposition: form-data; name="'
    first = part + b'attributes"\r\n\r\n' + said + b"\r\n" + part + b'file"; filename="f"\r\n\r\n'
    last = b"\r\n--" + _BOUND + b"--\r\n"
    head = b"POST /api/2.0/files/content HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token
    head += b"\r\nContent-Type: multipart/form-data; boundary=" + _BOUND
    return head + b"\r\nContent-Length: %d\r\n\r\n" % (len(first) + size + len(last)) + first, last


def _send(sock: socket.socket, stage: Stage, token: bytes, scale: float) -> int:
    size, data = max(int(1024 * scale), 8) * MIB, os.urandom(MIB)
    first, last = _upload(token, f"large {time.time_ns()}", size)
    sock.sendall(first)
    for _ in range(size // MIB):
        sock.sendall(data)
    hello.ask(sock, last)
    return size


def _fetch(sock: socket.socket, stage: Stage, token: bytes, scale: float) -> int:
    asked = b"GET /2.0/files/%s/content HTTP/1.1\r\nHost: localhost\r\n" % stage.ids["gigabyte"].encode()
    sock.sendall(asked + b"Prefer: return=representation\r\nAuthorization: Bearer " + token + b"\r\n\r\n")
    room = bytearray(MIB)
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(4096)
    head, _, body = got.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
    size = int(fields[b"content-length"])
    left = size - len(body)
    while left:
        left -= sock.recv_into(room)
    return size


def _small_uploads(stage: Stage, token: bytes, count: int = 200) -> float:
    """Return the processor time per request in milliseconds, in sequence over one connection."""
    data, name = os.urandom(10_000), time.time_ns()
    with _connected(stage, False) as sock:
        before = processor(stage.service)
        for number in range(count):
            first, last = _upload(token, f"small {name} {number}", len(data))
            hello.ask(sock, first + data + last)
        return (processor(stage.service) - before) / count * 1000


def _contents(scale: float) -> list[tuple[str, int]]:
    return [("small", 1000), ("gigabyte", max(int(1024 * scale), 8) * MIB)]


ROWS = (
    Comparison(
        "service",
        ("cmsfs",),
        (
            ShownFigure("hello-cmsfs", "the server's processor for a bare hello", "ms"),
            ShownFigure("hello-uvicorn", "uvicorn's (httptools, uvloop)", "ms"),
            ShownFigure("hello-granian", "granian's", "ms"),
            ShownFigure("item", "the service's for GET of a file", "ms"),
            ShownFigure("upload", "the service's for an upload of 10 kB", "ms"),
            ShownFigure("received-clear", "the service's for a GiB received, in clear", "s"),
            ShownFigure("received-clear-rate", "at", "MB/s", higher=True),
            ShownFigure("received-tls", "over TLS", "s"),
            ShownFigure("received-tls-rate", "at", "MB/s", higher=True),
            ShownFigure("sent-clear", "for a GiB sent, in clear", "s"),
            ShownFigure("sent-clear-rate", "at", "MB/s", higher=True),
            ShownFigure("sent-tls", "over TLS", "s"),
            ShownFigure("sent-tls-rate", "at", "MB/s", higher=True),
        ),
        _serving,
        _contents,
        alone=True,
    ),
)
