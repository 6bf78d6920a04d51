"""The server of the control socket, which answers `cmsfs status`, `sync` and `umount`.

One request per connection, in the protocol of `ipc.control`; methods are registered as handlers by
`answers`.  Only this user may connect: the socket is 0600 in a folder of 0700, and the kernel reports the
peer's user.

Rule: nothing here accesses the mount, and a client that disconnects or sends invalid data affects nobody
else.
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

# Interval of progress messages: the command line takes 15 s of silence for a hanging daemon.
PROGRESS_SECONDS = 0.5

# Interval of repeated answers: a status of a large tree takes some milliseconds.
WATCH_SECONDS = 1.0

# Time limit for a client to read: another process of this user may be slow, but not this slow.
SEND_SECONDS = 10.0

_UCRED = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class Command:
    """How a request is answered: the handler, which takes the request's fields, and the options."""

    method: Callable[..., Any]
    tells_progress: bool  # send progress until the answer is ready
    ends_with_caller: bool  # cancel the handler when the client disconnects
    repeats: bool  # answer repeatedly until the client disconnects
    only_changes: bool  # skip repeated answers that are unchanged


# All commands, by request type.
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
    """Register a method of the drive as the handler of a request.

    It takes the request's fields as keywords and may be asynchronous.  Its result is the last message: a
    message of `ipc.control`, or for a `Done` None or a note for the user.
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
            # The drive shuts down and cancels us at the same moment: swallow only this error.
            pass

    async def finished(self, seconds: float) -> None:
        """Wait until all requests are answered, at most this long."""
        with trio.move_on_after(seconds):
            while self._talking:
                await self._silent.wait()

    async def _handle(self, stream: trio.SocketStream) -> None:
        self._talking += 1
        try:
            async with stream:
                await self._serve_connection(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the client disconnected
        except Exception:
            log.exception("unexpected error while handling a command")
        finally:
            self._talking -= 1
            self._silent.pulse()

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        if not _is_same_user(stream.socket):
            return
        with trio.fail_after(REQUEST_SECONDS):
            line = await _line(stream)
        try:
            request = control.parse_request(line)
        except pydantic.ValidationError as error:
            await _send(stream, control.Failure(message=_refusal(error)))
            return
        await self._answer(stream, request)

    async def _answer(self, stream: trio.SocketStream, request: control.Request) -> None:
        command = COMMANDS[type(request)]
        if not (command.ends_with_caller or command.repeats):
            await _send(stream, await self._carry_out(stream, command, request))
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_at_end, stream, nursery.cancel_scope)
            last: pydantic.BaseModel | None = None
            while True:
                answer = await self._carry_out(stream, command, request)
                if not (command.only_changes and answer == last):
                    await _send(stream, answer)
                last = answer
                if not command.repeats:
                    break
                await trio.sleep(WATCH_SECONDS)
            nursery.cancel_scope.cancel()

    async def _carry_out(
        self, stream: trio.SocketStream, command: Command, request: control.Request
    ) -> pydantic.BaseModel:
        """Carry out a command; return the last message, also for a failure."""
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

        # A tree of a million items takes minutes, and so does a stalled service: progress shows that the
        # command still runs.
        await (self._send_progress_until(stream, work) if command.tells_progress else work())
        return done[0]

    async def _send_progress_until(
        self, stream: trio.SocketStream, work: Callable[[], Awaitable[None]]
    ) -> None:
        """Send progress messages until the work is done."""

        async def tell() -> None:
            while True:
                await _send(stream, self._progress())
                await trio.sleep(PROGRESS_SECONDS)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_ignore_disconnect, tell)
            await work()
            nursery.cancel_scope.cancel()

    def _progress(self) -> control.Progress:
        counts = queue.counts(self._db)
        return control.Progress(
            pending=counts.get("ready", 0) + counts.get("running", 0),
            held=counts.get("held", 0),
            bytes_pending=queue.unsent_bytes(self._db),
            message=self._delay_reason(),
        )

    def _delay_reason(self) -> str:
        """Return why the transfer takes longer than its bytes would, if it does."""
        if not self._health.may_work:
            return f"{self._health.state}: {self._health.reason}"
        failed = next((op for op in queue.failed(self._db) if op.state != "held"), None)
        return f"{tree.path(self._db, failed.ino)}: {failed.error}" if failed is not None else ""


def _refusal(error: pydantic.ValidationError) -> str:
    """Return why a line is not a valid request."""
    first = error.errors(include_url=False)[0]
    if first["type"] in ("union_tag_invalid", "union_tag_not_found", "json_invalid") or not first["loc"]:
        return "The daemon does not support this request."
    kind, *field = map(str, first["loc"])
    return f"The daemon cannot read this request ({kind}): {'.'.join(field)}: {first['msg']}."


async def _ignore_disconnect(tell: Callable[[], Awaitable[None]]) -> None:
    """Ignore that the client disconnected: a requested stop continues."""
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


async def _send(stream: trio.SocketStream, message: pydantic.BaseModel) -> None:
    with trio.fail_after(SEND_SECONDS):
        await stream.send_all(control.encode(message))


async def _cancel_at_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Cancel the command when the client closes the connection."""
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
    """Listen on a socket at `path` while the block lasts.  The caller holds the account's lock, so an
    existing socket is left over from a dead daemon."""
    path.unlink(missing_ok=True)
    # sun_path is limited to 107 bytes; through a descriptor of the folder any path is short.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
            # Before `listen`, so that nobody can connect earlier.
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
