"""The server of the control socket: what `cmsfs status`, `sync` and `umount` ask.

One request a connection, answers as `models.control` says.  Only this user may connect: the socket is
0600 in a folder of 0700, and the kernel tells who is at the other end.

Rule: nothing here reaches into the mount, and a caller that goes away or talks nonsense disturbs nobody.
"""

import functools
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import pydantic
import trio

from cmsfs import errors, logs
from cmsfs.auth.explain import explain
from cmsfs.journal import queue
from cmsfs.models import control, insides, waiting
from cmsfs.replica import tree
from cmsfs.sqlite import Database
from daemon.health import Health

log = logging.getLogger(__name__)

MAX_LINE = 64 * 1024
REQUEST_SECONDS = 10.0

# The command line takes 15 s of silence for a daemon that hangs.
PROGRESS_SECONDS = 0.5

# A status of a large tree takes some milliseconds.
WATCH_SECONDS = 1.0

# Another process of this user may be slow, but not this slow.
SEND_SECONDS = 10.0

_UCRED = struct.Struct("iII")


class Agents(Protocol):
    """What can be asked of the running drive."""

    def pong(self) -> control.Pong: ...
    async def status(self) -> control.Status: ...
    async def sync(self) -> None: ...
    async def poll(self, *, full: bool) -> None: ...
    async def retry(self, path: str | None) -> None: ...
    async def discard(self, path: str) -> str: ...
    async def conflicts(self) -> control.Conflicts: ...
    def dismiss_recovered(self) -> str: ...
    def recovered(self) -> str: ...
    async def pin(self, path: str) -> str: ...
    async def unpin(self, path: str) -> None: ...
    async def free(self, path: str, *, unpin: bool) -> control.Freed: ...
    async def pinned(self) -> insides.Pinning: ...
    async def decide_missing(self, remove: bool) -> control.Done: ...
    async def decide_offers(self, words: list[str], accept: bool) -> control.Done: ...
    async def told_of(self, path: str) -> control.PathStatus: ...
    async def adopt(self) -> control.Adopted: ...
    async def pause(self, seconds: float | None) -> None: ...
    async def resume(self) -> None: ...
    def stop(self, request: control.Stop) -> str | None: ...
    async def stopped(self) -> None: ...


class Server:
    """Answers requests until cancelled."""

    def __init__(self, db: Database, health: Health, agents: Agents) -> None:
        self._db = db
        self._health = health
        self._agents = agents
        self._talking = 0
        self._silent = trio.Event()

    async def serve(self, listener: trio.SocketListener) -> None:
        await trio.serve_listeners(self._handle, [listener])

    async def finished(self, seconds: float) -> None:
        """Wait until nobody is being answered, but not for ever."""
        with trio.move_on_after(seconds):
            while self._talking:
                await self._silent.wait()

    async def _handle(self, stream: trio.SocketStream) -> None:
        self._talking += 1
        try:
            async with stream:
                await self._converse(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the caller went away
        except Exception:
            log.exception("a bug in answering a command")
        finally:
            self._talking -= 1
            self._silent.set()
            self._silent = trio.Event()

    async def _converse(self, stream: trio.SocketStream) -> None:
        if not _is_same_user(stream.socket):
            return
        with trio.fail_after(REQUEST_SECONDS):
            line = await _line(stream)
        try:
            await self._answer(stream, control.parse_request(line))
        except pydantic.ValidationError:
            await _say(stream, control.Failure(message="The daemon does not know this request."))
        except errors.CmsfsError as error:
            told = explain(error)
            await _say(stream, control.Failure(message=told.message, exit_code=told.exit_code))

    async def _answer(self, stream: trio.SocketStream, request: pydantic.BaseModel) -> None:
        match request:
            case control.Ping():
                await _say(stream, self._agents.pong())
            case control.GetStatus():
                await _say(stream, await self._agents.status())
            case control.Poll():
                await self._poll(stream, full=request.full)
                await _say(stream, control.Done())
            case control.Retry():
                await self._agents.retry(request.path)
                await _say(stream, control.Done())
            case control.Discard():
                await _say(stream, control.Done(message=await self._agents.discard(request.path)))
            case control.GetConflicts():
                await _say(stream, await self._agents.conflicts())
            case control.DismissRecovered():
                await _say(stream, control.Done(message=self._agents.dismiss_recovered()))
            case waiting.DecideMissing():
                # Of each the service is asked once more.
                decide = functools.partial(self._agents.decide_missing, request.remove)
                await self._told_until_answered(stream, decide)
            case waiting.DecideOffers():
                choose = functools.partial(self._agents.decide_offers, request.words, request.accept)
                await self._told_until_answered(stream, choose)
            case control.Pin():
                await _say(stream, control.Done(message=await self._agents.pin(request.path)))
            case control.Unpin():
                await self._agents.unpin(request.path)
                await _say(stream, control.Done())
            case control.Free():
                await self._free(stream, request)
            case control.GetPins():
                await _say(stream, control.Pins(pins=await self._agents.pinned()))
            case control.Watch():
                await self._watch(stream)
            case control.GetPathStatus():
                await _say(stream, await self._agents.told_of(request.path))
            case control.Pause():
                await self._agents.pause(request.seconds)
                await _say(stream, control.Done())
            case control.Resume():
                await self._agents.resume()
                await _say(stream, control.Done())
            case control.SetLogLevel():
                logs.set_level(request.level)
                await _say(stream, control.Done())
            case control.Adopt():
                await self._told_until_answered(stream, self._agents.adopt)
            case control.Sync():
                await self._sync(stream)
            case control.Stop():
                await self._stop(stream, request)

    async def _poll(self, stream: trio.SocketStream, *, full: bool) -> None:
        failures: list[errors.CmsfsError] = []

        async def compare() -> None:
            try:
                await self._agents.poll(full=full)
            except errors.CmsfsError as error:
                failures.append(error)

        # A tree of a million items takes minutes, and so does a service that stalls: the caller hears that
        # it goes on.
        await self._tell_until(stream, compare)
        if failures:
            raise failures[0]

    async def _free(self, stream: trio.SocketStream, request: control.Free) -> None:
        # A hundred thousand files take seconds.
        await self._told_until_answered(stream, lambda: self._agents.free(request.path, unpin=request.unpin))

    async def _told_until_answered(
        self, stream: trio.SocketStream, work: Callable[[], Awaitable[pydantic.BaseModel]]
    ) -> None:
        done: list[pydantic.BaseModel | errors.CmsfsError] = []

        async def carry_out() -> None:
            try:
                done.append(await work())
            except errors.CmsfsError as error:
                done.append(error)

        await self._tell_until(stream, carry_out)
        if isinstance(done[0], errors.CmsfsError):
            raise done[0]
        await _say(stream, done[0])

    async def _watch(self, stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            while True:
                await _say(stream, await self._agents.status())
                await trio.sleep(WATCH_SECONDS)

    async def _sync(self, stream: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_at_end, stream, scope)
                await self._tell_until(stream, self._agents.sync)
                nursery.cancel_scope.cancel()
        if scope.cancelled_caught:
            return
        counts = queue.counts(self._db)
        pending = counts.get("ready", 0) + counts.get("running", 0)
        message = "Files that are open for writing follow when they are closed." if pending else ""
        message = message or self._agents.recovered()
        await _say(stream, control.Done(pending=pending, held=counts.get("held", 0), message=message))

    async def _stop(self, stream: trio.SocketStream, request: control.Stop) -> None:
        if (reason := self._agents.stop(request)) is not None:
            await _say(stream, control.Failure(message=reason))
            return
        await self._tell_until(stream, self._agents.stopped)
        counts = queue.counts(self._db)
        pending = counts.get("ready", 0) + counts.get("running", 0)
        await _say(stream, control.Done(pending=pending, held=counts.get("held", 0)))

    async def _tell_until(self, stream: trio.SocketStream, work: Callable[[], Awaitable[None]]) -> None:
        """Tell of progress, every moment, until the work is done."""

        async def tell() -> None:
            while True:
                await _say(stream, self._progress())
                await trio.sleep(PROGRESS_SECONDS)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_quietly, tell)
            await work()
            nursery.cancel_scope.cancel()

    def _progress(self) -> control.Progress:
        counts = queue.counts(self._db)
        return control.Progress(
            pending=counts.get("ready", 0) + counts.get("running", 0),
            held=counts.get("held", 0),
            bytes_pending=queue.unsent_bytes(self._db),
            message=self._waits_for(),
        )

    def _waits_for(self) -> str:
        """Why it takes longer than the bytes do, if it does."""
        if not self._health.may_work:
            return f"{self._health.state}: {self._health.reason}"
        failed = next((op for op in queue.failed(self._db) if op.state != "held"), None)
        return f"{tree.path(self._db, failed.ino)}: {failed.error}" if failed is not None else ""


async def _quietly(tell: Callable[[], Awaitable[None]]) -> None:
    """A stop goes on when the one who asked for it has gone."""
    try:
        await tell()
    except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
        pass


async def _line(stream: trio.SocketStream) -> bytes:
    data = bytearray()
    while b"\n" not in data and len(data) < MAX_LINE:
        if not (chunk := await stream.receive_some()):
            break
        data += chunk
    return bytes(data.partition(b"\n")[0])


async def _say(stream: trio.SocketStream, message: pydantic.BaseModel) -> None:
    with trio.fail_after(SEND_SECONDS):
        await stream.send_all(control.encode(message))


async def _cancel_at_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """End what was asked for when the caller closes the connection."""
    try:
        while await stream.receive_some():
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    scope.cancel()


def _is_same_user(peer: trio.socket.SocketType) -> bool:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    _, uid, _ = _UCRED.unpack(credentials)
    return bool(uid == os.geteuid())


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[trio.SocketListener]:
    """The socket at `path`, for as long as the block lasts.  The caller holds the account's lock, so what
    is there already is a dead daemon's."""
    path.unlink(missing_ok=True)
    # sun_path holds 107 bytes; through a descriptor of the folder any path is short.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            # Nobody can connect before `listen`.
            path.chmod(0o600)
            listener.listen(16)
        except BaseException:
            listener.close()
            raise
    finally:
        os.close(folder)
    try:
        async with trio.SocketListener(trio.socket.from_stdlib_socket(listener)) as served:
            yield served
    finally:
        path.unlink(missing_ok=True)
