"""The requests of the benchmark, and their rate: each connection sends the next request as soon as it has its
response."""

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlencode

from cmsfs.client.content.search import FIELDS
from tests.bench.service import hello
from tests.bench.service.scale.serving import Running
from tests.bench.service.scale.tree import RARE

MIB = 1024 * 1024
LARGE = 32 * MIB
CONNECTIONS = 8

_FIELDS = ",".join(FIELDS)
_SECONDS = 120

Ask = Callable[[socket.socket], object]


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def request(token: str, method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    for name, value in headers.items():
        head += f"{name.replace('_', '-')}: {value}\r\n"
    if body:
        head += f"Content-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def get(token: str, path: str, **params: object) -> bytes:
    return request(token, "GET", f"/2.0{path}?{urlencode(params)}")


class Asked:
    """The requests of the owner of all items."""

    def __init__(self, running: Running) -> None:
        self._facts = running.facts
        self.token: str = self._facts["tokens"][0]
        # One each, so that concurrent writers do not share a folder.
        self.folders = [self._made_folder(running.ports[0]) for _ in range(4)]
        self._large: str | None = None
        self._port = running.ports[0]

    def _made_folder(self, port: int) -> str:
        body = json.dumps({"name": f"load {time.time_ns()}", "parent": {"id": "0"}}).encode()
        with connect(port) as sock:
            made = json.loads(hello.ask(sock, request(self.token, "POST", "/2.0/folders", body)))
        return str(made["id"])

    def _file(self) -> int:
        return int(self._facts["file"]) + random.randrange(int(self._facts["files"]))

    def stat(self, sock: socket.socket) -> object:
        return hello.ask(sock, get(self.token, f"/files/{self._file()}", fields=_FIELDS))

    def listing(self, sock: socket.socket) -> object:
        """Request a page of 100 entries of the flat folder."""
        flat = self._facts["folders"]["flat"]
        size = {"limit": 100, "offset": random.randrange(self._facts["files"] // 60), "fields": _FIELDS}
        return hello.ask(sock, get(self.token, f"/folders/{flat}/items", **size))

    def search(self, sock: socket.socket) -> object:
        """Search for a rare word and a unique number, another one each time."""
        query = f"{RARE} OR {self._file()}"
        return hello.ask(sock, get(self.token, "/search", query=query, limit=30, fields=_FIELDS))

    def upload_small(self, sock: socket.socket) -> bytes:
        return self._upload(sock, f"small file {random.random()}\n".encode())

    def upload_large(self, sock: socket.socket) -> bytes:
        return self._upload(sock, os.urandom(16) + bytes(LARGE - 16))

    def download_small(self, sock: socket.socket) -> object:
        return self._download(sock, str(self._file()))

    def download_large(self, sock: socket.socket) -> object:
        return self._download(sock, self.large())

    def large(self) -> str:
        if self._large is None:
            with connect(self._port) as sock:
                self._large = str(json.loads(self.upload_large(sock))["entries"][0]["id"])
        return self._large

    def _upload(self, sock: socket.socket, data: bytes) -> bytes:
        name = f"{time.time_ns()} {random.randrange(10**6)}.txt"
        attributes = json.dumps({"name": name, "parent": {"id": random.choice(self.folders)}})
        form = (
            f'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n{attributes}\r\n'
            '--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        ).encode()
        body = form + data + b"\r\n--edge--\r\n"
        kind = {"Content_Type": "multipart/form-data; boundary=edge"}
        return hello.ask(sock, request(self.token, "POST", "/api/2.0/files/content", body, **kind))

    def _download(self, sock: socket.socket, wire_id: str) -> int:
        path = f"/2.0/files/{wire_id}/content"
        sock.sendall(request(self.token, "GET", path, Prefer="return=representation"))
        got, size, left = b"", 0, -1
        buffer = bytearray(MIB)
        while left:
            count = sock.recv_into(buffer)
            assert count, "the answer ended"
            if left < 0:
                got += bytes(buffer[:count])
                head, found, body = got.partition(b"\r\n\r\n")
                if not found:
                    continue
                assert head[9:12] == b"200", head
                fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
                size = int(fields[b"content-length"])
                count, left = len(body), size
            left -= count
        return size


def rate(ports: Sequence[int], ask: Ask, seconds: float) -> tuple[float, int]:
    """Return the number of responses of all processes together, and the seconds they took."""
    done: list[int] = []
    failed: list[Exception] = []
    ready = threading.Barrier(CONNECTIONS + 1)
    ends = [0.0]

    def run(number: int) -> None:
        try:
            with connect(ports[number % len(ports)]) as sock:
                ask(sock)
                ready.wait()
                count = 0
                while time.monotonic() < ends[0]:
                    ask(sock)
                    count += 1
                done.append(count)
        except Exception as error:
            failed.append(error)
            ready.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    ends[0] = began + seconds + _SECONDS
    with suppress(threading.BrokenBarrierError):
        ready.wait()
        began = time.monotonic()
        ends[0] = began + seconds
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return time.monotonic() - began, sum(done)
