"""The server of the control socket, which answers `cmsfs status`, `sync` and `umount`.

One request a connection, answers as `ipc.control` says; which method answers it is declared there
(`answers`), and looked up here.  Only this user may connect: the socket is
0600 in a folder of 0700, and the kernel tells who is at the other end.

Rule: nothing here reaches into the mount, and a caller that goes away or talks nonsense disturbs nobody.
"""

import inspect
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import trio

from cmsfs import errors
from cmsfs.ipc import control
from cmsfs.journal import queue
from cmsfs.replica import tree
from cmsfs.sqlite import Database
from cmsfs.user_messages import explain
from cmsfs.wakeup import Signal
from daemon.core.health import Health

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


@dataclass(frozen=True, slots=True)
class Command:
    """How a request is answered: by a method that takes the request's fields."""

    method: Callable[..., Any]
    tells_progress: bool  # every moment, until the answer is there
    ends_with_caller: bool  # and not only with the answer
    repeats: bool  # answered again and again until the caller hangs up
    only_changes: bool  # and then only with answers that are new


# All commands, by the requests that they answer.
COMMANDS: dict[type[control.Request], Command] = {}

Method = TypeVar("Method", bound=Callable[..., Any])


def answers(
    request: type[control.Request],
    *,
    tells_progress: bool = False,
    ends_with_caller: bool = False,
    repeats: bool = False,
    only_changes: bool = False,
) -> Callable[[Method], Method]:
    """Make a method of the drive the answer to a request.

    It takes the request's fields as keywords and may be asynchronous.  What it returns is the last message: a
    message of `ipc.control`, or for a `Done` nothing or what the person should know.
    """

    def declare(method: Method) -> Method:
        assert request not in COMMANDS, f"{request.__name__} has an answer"
        COMMANDS[request] = Command(method, tells_progress, ends_with_caller, repeats, only_changes)
        return method

    return declare


class ControlServer:
    """Answers requests until cancelled."""

    def __init__(self, db: Database, health: Health, drive: object) -> None:
        self._db = db
        self._health = health
        self._drive = drive
        self._talking = 0
        self._silent = Signal()

    async def serve(self, listener: trio.SocketListener) -> None:
        """Answer until the listener is closed."""
        try:
            await trio.serve_listeners(self._handle, [listener])
        except* trio.ClosedResourceError:
            # The drive ends, and cancels us at the same moment: nothing may be left of this but that.
            pass

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
            log.exception("unexpected error while handling a command")
        finally:
            self._talking -= 1
            self._silent.pulse()

    async def _converse(self, stream: trio.SocketStream) -> None:
        if not _is_same_user(stream.socket):
            return
        with trio.fail_after(REQUEST_SECONDS):
            line = await _line(stream)
        try:
            request = control.parse_request(line)
        except pydantic.ValidationError as error:
            await _say(stream, control.Failure(message=_refusal(error)))
            return
        await self._answer(stream, request)

    async def _answer(self, stream: trio.SocketStream, request: control.Request) -> None:
        command = COMMANDS[type(request)]
        if not (command.ends_with_caller or command.repeats):
            await _say(stream, await self._carry_out(stream, command, request))
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            last: pydantic.BaseModel | None = None
            while True:
                answer = await self._carry_out(stream, command, request)
                if not (command.only_changes and answer == last):
                    await _say(stream, answer)
                last = answer
                if not command.repeats:
                    break
                await trio.sleep(WATCH_SECONDS)
            nursery.cancel_scope.cancel()

    async def _carry_out(
        self, stream: trio.SocketStream, command: Command, request: control.Request
    ) -> pydantic.BaseModel:
        """The last message, be it a failure."""
        done: list[pydantic.BaseModel] = []

        async def work() -> None:
            fields = {name: getattr(request, name) for name in type(request).model_fields if name != "kind"}
            try:
                found = command.method(self._drive, **fields)
                said = await found if inspect.isawaitable(found) else found
                done.append(
                    said if isinstance(said, pydantic.BaseModel) else control.Done(message=said or "")
                )
            except errors.CmsfsError as error:
                told = explain(error)
                done.append(control.Failure(message=told.message, exit_code=told.exit_code))

        # A tree of a million items takes minutes, and so does a service that stalls: the caller hears that
        # it goes on.
        await (self._tell_until(stream, work) if command.tells_progress else work())
        return done[0]

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


def _refusal(error: pydantic.ValidationError) -> str:
    """Why a line is no request."""
    first = error.errors(include_url=False)[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found", "json_invalid") or not first["loc"]:
        return "The daemon does not support this request."
    kind, *field = map(str, first["loc"])
    return f"The daemon cannot read this request ({kind}): {'.'.join(field)}: {first['msg']}."


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
