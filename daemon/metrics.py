"""Prometheus metrics on a local port or a Unix socket, if the settings enable it.

The text is written by hand: a dozen figures that the status has anyway need no registry and no thread.  Names
of files and accounts are not among them.

Rule: only the loopback address is listened on; whoever asks disturbs nobody.
"""

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import trio

from cmsfs import errors
from cmsfs.ipc import control

log = logging.getLogger(__name__)

LOOPBACK = ("127.0.0.1", "::1", "localhost")
REQUEST_SECONDS = 5.0
_MAX_HEAD = 16 * 1024

_STATES = ("starting", "online", "offline", "unauthorised", "degraded")

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def serve(where: str, status: Callable[[], Awaitable[control.DriveStatus]]) -> None:
    """Answer for ever.  A place that cannot be listened on is logged: the drive does without."""
    try:
        listeners = await _listen(where)
    except (OSError, errors.ConfigError) as error:
        log.error("metrics cannot be served at %s: %s", where, error)
        return

    async def talk(stream: trio.SocketStream) -> None:
        try:
            with trio.move_on_after(REQUEST_SECONDS):
                async with stream:
                    await _answer(stream, status)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # whoever asked has gone

    try:
        await trio.serve_listeners(talk, listeners)
    finally:
        if "/" in where:
            Path(where).expanduser().unlink(missing_ok=True)


async def _listen(where: str) -> list[trio.SocketListener]:
    if "/" in where:
        return [_listen_unix(Path(where).expanduser())]
    host, _, port = where.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if host not in LOOPBACK or not port.isdigit():
        raise errors.ConfigError(
            "metrics takes a local address such as 127.0.0.1:9464, or the path of a socket"
        )
    return await trio.open_tcp_listeners(int(port), host=host)


def _listen_unix(path: Path) -> trio.SocketListener:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        before = os.umask(0o077)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(4)
    except BaseException:
        listener.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(listener))


async def _answer(stream: trio.SocketStream, status: Callable[[], Awaitable[control.DriveStatus]]) -> None:
    head = bytearray()
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
        if not (chunk := await stream.receive_some()):
            return
        head += chunk
    words = bytes(head).split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET" or words[1].split(b"?")[0] != b"/metrics":
        line, body = "404 Not Found", "There is only /metrics.\n"
    else:
        line, body = "200 OK", render(await status())
    data = body.encode()
    headers = f"Content-Type: {_TYPE}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    await stream.send_all(f"HTTP/1.1 {line}\r\n{headers}".encode() + data)


def render(status: control.DriveStatus) -> str:
    """The figures in Prometheus' text format."""
    return "".join(f"{line}\n" for line in _lines(status))


def _lines(status: control.DriveStatus) -> Iterator[str]:
    def figure(name: str, kind: str, said: str, values: dict[str, float]) -> Iterator[str]:
        yield f"# HELP cmsfs_{name} {said}"
        yield f"# TYPE cmsfs_{name} {kind}"
        for labels, value in values.items():
            yield f"cmsfs_{name}{labels} {value:.15g}"

    queue, cache = status.queue, status.cache
    states = {f'{{state="{one}"}}': float(one == status.health.state) for one in _STATES}
    changes = {"waiting": queue.waiting, "running": queue.running, "held": queue.held}
    waiting = {f'{{state="{state}"}}': float(count) for state, count in changes.items()}
    requests = {f'{{purpose="{kind}"}}': float(count) for kind, count in sorted(status.requests.items())}
    yield from figure("connection", "gauge", "1 for the current connection state.", states)
    yield from figure("changes", "gauge", "Changes pending upload.", waiting)
    yield from figure("unsent_bytes", "gauge", "Bytes pending upload.", {"": queue.bytes_pending})
    yield from figure("cache_bytes", "gauge", "Bytes in the cache.", {"": cache.used_bytes})
    yield from figure("cache_limit_bytes", "gauge", "Size limit of the cache.", {"": cache.limit_bytes})
    yield from figure("items", "gauge", "Items in the local tree.", {"": status.listing.items})
    yield from figure("requests_total", "counter", "Requests to the service, by purpose.", requests)
    if status.last_poll is not None:
        last = {"": status.last_poll.timestamp()}
        yield from figure(
            "last_poll_timestamp_seconds", "gauge", "Time of the last poll for remote changes.", last
        )
    began = {"": status.started.timestamp()}
    yield from figure("start_timestamp_seconds", "gauge", "Start time of the daemon.", began)
