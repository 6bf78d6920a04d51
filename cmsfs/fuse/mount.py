"""Mounts the file system, serves requests, and unmounts.

`mounted` is used once a process: pyfuse3 keeps its session in module globals.  The daemon enters it when
everything that the handlers need is running, and leaves it before anything of that stops.

Rule: handlers are never cancelled while a caller waits for them.  The drive is taken off its mountpoint
first, open files are served a little longer, handlers end, and only past a deadline is the connection
aborted.
"""

import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyfuse3
import trio

from cmsfs import errors, mounts
from cmsfs.fuse import libfuse_output, notifier, request_turns, takeover
from cmsfs.fuse.handler import Changing, UnderWay
from cmsfs.fuse.operations import Operations
from cmsfs.mountpoint_guard import MountpointGuard
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# How long a drive that was taken off its mountpoint still serves those who have files open in it.  A shell
# that merely stands in a folder of the drive counts too, so a stop must not wait long for this.
LINGER = 2.0

# How long handlers may then take; a stop of the daemon is given 90 seconds by its unit.
DEADLINE = 20.0

# How long the kernel may take to answer the first stat; it asks the root folder only.
ANSWER = 30.0

# Requests served at a time.  pyfuse3's 99 could all be reads that wait for the network, and then `ls` of a
# folder that is known would wait with them.  A task that was needed once ends when it is idle.
TASKS = 256

# How long requests may take to end before the connection is handed over: those that only read, and wait for
# the network, are left then, and the kernel sends them once more.
SHORTLY = 0.5

# How long is waited for requests that must not be carried out twice; they wait for a service that is slow.
PATIENCE = 10.0
LOOK = 0.01


@dataclass(frozen=True, slots=True)
class Inheritance:
    """A mounted drive that nobody serves: the kernel's descriptor, and the folder below the mount with the
    mode that is to be given back to it.  `is_blind`: nobody knows what the kernel was told of news."""

    connection: int
    ground: int
    mode: int
    is_blind: bool = False


class Mounted:
    """A drive that the kernel knows: where it is, which connection serves it, and when it is gone."""

    def __init__(
        self,
        mountpoint: Path,
        connection: int,
        ground: MountpointGuard,
        begin: Callable[[int], Awaitable[None]],
    ) -> None:
        """`begin` begins a session on this descriptor of the connection."""
        self.mountpoint = mountpoint
        self.ground = ground
        self.connection = connection
        self._switch = mounts.AbortSwitch(connection)
        # Set when no request comes any more: by our own doing, or because somebody unmounted the drive.
        self.unmounted = trio.Event()
        # The loop outlives a cancellation from outside, or callers would never be answered.
        self._serving = trio.CancelScope(shield=True)
        self._begin = begin
        self._has_session = True
        # While it is held: set when nothing is answered any more, and when that is to be so again.
        self._silent: trio.Event | None = None
        self._resumed = trio.Event()
        # Somebody else serves it next.
        self.is_left = False

    @property
    def is_attached(self) -> bool:
        """Whether the mountpoint shows this very drive."""
        found = mounts.find(self.mountpoint)
        return found is not None and found.connection == self.connection

    def abort(self) -> bool:
        """Break the connection; callers end with an error.  For another thread, when the loop is stuck.

        Does nothing to a connection that has ended.  False if this user may not break it.
        """
        return self._switch.abort()

    async def serve(self) -> None:
        """Answer requests until the drive is unmounted."""
        try:
            while self._has_session:
                with self._serving:
                    await pyfuse3.main(min_tasks=1, max_tasks=TASKS)
                if self._silent is None:
                    break
                # A cancellation from outside comes through here.
                self._silent.set()
                await self._resumed.wait()
        finally:
            self.unmounted.set()

    async def hold(self) -> int:
        """Answer nothing any more; the connection's descriptor, which is the caller's from now on.

        What the kernel asks waits for `resume`, or for whoever is given the descriptor.  Raises `UserError`,
        and goes on, while a request that must not be carried out twice does not end.
        """
        if not await self._calm() or self.unmounted.is_set():
            raise errors.UserError("A program waits for the service on the drive; try again in a moment.")
        if not await threads.run_sync(partial(notifier.session.closing, timeout=PATIENCE)):
            notifier.session.opened()
            raise errors.UserError("The kernel waits for the drive; try again in a moment.")
        descriptor = takeover.duplicate()
        silent = self._silent = trio.Event()
        self._resumed = trio.Event()
        pyfuse3.terminate()
        with trio.move_on_after(SHORTLY):
            await silent.wait()
        while not silent.is_set():
            if takeover.can_resend() and not Changing.requests:
                self._serving.cancel()
            with trio.move_on_after(LOOK):
                await silent.wait()
        pyfuse3.close(unmount=False)
        self._has_session = False
        if takeover.has_ended(descriptor):
            os.close(descriptor)
            self._resumed.set()
            raise errors.UserError("The drive was unmounted.")
        return descriptor

    async def _calm(self) -> bool:
        """Wait until no request is carried out that cannot be left; False if one does not end.

        What the kernel would not send once more cannot be left, once it has taken longer than a look: those
        that end at once are waited for when no more are taken.
        """
        before = set[int]()
        with trio.move_on_after(PATIENCE):
            while True:
                waiting = UnderWay.requests & before if not takeover.can_resend() else set[int]()
                if not Changing.requests and not waiting and (before or takeover.can_resend()):
                    return True
                before = set(UnderWay.requests) | {-1}
                with trio.move_on_after(LOOK):
                    await self.unmounted.wait()
                    return False
        return False

    async def resume(self, descriptor: int) -> None:
        """Answer again after `hold`, as if nothing had been.  Raises `OSError`."""
        try:
            await self._begin(descriptor)
            self._has_session = True
            notifier.session.opened()
        finally:
            os.close(descriptor)
            self._silent, self._serving = None, trio.CancelScope(shield=True)
            self._resumed.set()

    def leave(self) -> None:
        """Whoever is given the descriptor serves the drive: it stays mounted when this context closes."""
        self.is_left = True

    async def stop(self, *, linger: float, deadline: float) -> None:
        """Take the drive off its mountpoint and end serving, in the order that loses nothing."""
        if self.unmounted.is_set():
            # Unmounted by somebody, or the loop failed: then callers wait for answers that nobody gives.
            await threads.run_sync(self.abort)
        if self.is_attached:
            try:
                await threads.run_sync(mounts.detach, self.mountpoint)
            except errors.UserError as error:
                log.warning("%s", error)
        with trio.move_on_after(linger):
            await self.unmounted.wait()
        if not self.unmounted.is_set():
            pyfuse3.terminate()
            with trio.move_on_after(deadline):
                await self.unmounted.wait()
        if not self.unmounted.is_set():
            log.error("requests did not finish within %s seconds; aborting the FUSE connection", deadline)
            await threads.run_sync(self.abort)
            self._serving.cancel()
            await self.unmounted.wait()

    async def close(self) -> None:
        """Give the session back; whoever still waits for an answer gets an error."""
        # A notification may wait in the kernel for a request that nobody answers any more.
        await threads.run_sync(self.abort)
        if not await threads.run_sync(partial(notifier.session.closing, timeout=5.0)):
            log.error("a kernel notification hangs; closing the session")
        self._switch.close()
        if self._has_session:
            pyfuse3.close(unmount=self.is_attached)
        self.ground.give_back()
        self.ground.close()


@asynccontextmanager
async def mounted(
    operations: Operations,
    mountpoint: Path,
    *,
    fsname: str = mounts.FSNAME,
    allow_other: bool = False,
    read_only: bool = False,
    noexec: bool = False,
    create: bool = False,
    over: bool = False,
    memo: Path | None = None,
    inherited: Inheritance | None = None,
    linger: float = LINGER,
    deadline: float = DEADLINE,
) -> AsyncIterator[Mounted]:
    """Serve a drive at `mountpoint` for as long as the context is open, `over` whatever lies there.

    `memo` is the file that remembers over a crash which mode the folder had.  `inherited`: it is mounted
    there already, and was served by another process.

    Raises `UserError` if it cannot be mounted, saying why.  Ends cleanly if somebody else unmounts it:
    `Mounted.unmounted` tells.  What is raised inside leaves as an `ExceptionGroup`, as out of a nursery.
    Cancelled: the drive is stopped in good order all the same, which takes `linger` and `deadline` at most.
    """
    options = _options(fsname, allow_other=allow_other, read_only=read_only, noexec=noexec)
    request_turns.install()
    begin = partial(takeover.begin, operations, options)
    logging.getLogger("pyfuse3").addFilter(_is_of_interest)
    if inherited is not None:
        drive = await _taken_over(begin, mounts.located(mountpoint), memo, inherited)
    else:
        mounts.require_fuse()
        place = await threads.run_sync(partial(mounts.prepare, mountpoint, create=create, over=over))
        await threads.run_sync(mounts.ensure_fusectl)
        ground = _ground(place, memo)
        try:
            _init(operations, place, options)
        except BaseException:
            ground.give_back()
            ground.close()
            raise
        ground.bar()
        # The one look at the mount from this process, through the kernel's own list.
        found = mounts.find(place)
        drive = Mounted(place, found.connection if found else -1, ground, begin)
    notifier.session.opened()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.serve, name="fuse")
            try:
                await _answered(drive)
                # Not before: with the first answer the kernel sets it anew.
                mounts.raise_read_ahead(drive.connection)
                yield drive
            finally:
                if drive.is_left:
                    nursery.cancel_scope.cancel()
                else:
                    with trio.CancelScope(shield=True):
                        await drive.stop(linger=linger, deadline=deadline)
    finally:
        if not drive.is_left:
            with trio.CancelScope(shield=True):
                await drive.close()


async def _taken_over(
    begin: Callable[[int], Awaitable[None]], place: Path, memo: Path | None, inherited: Inheritance
) -> Mounted:
    """The drive that another process has mounted.  Raises `UserError`; then it is not mounted any more."""
    found = mounts.find(place)
    ground = MountpointGuard(place, memo, inherited=(inherited.ground, inherited.mode))
    try:
        if found is None or not found.is_drive:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        await begin(inherited.connection)
        if inherited.is_blind:
            takeover.doubt_names(inherited.connection)
    except OSError as error:
        ground.close()
        message = f"The drive at {place} cannot be taken over: {error.strerror}."
        raise errors.UserError(message, exit_code=mounts.NO_FUSE) from None
    finally:
        # Of a drive that cannot be taken over this is the last one: whoever waits gets an error.
        os.close(inherited.connection)
    return Mounted(place, found.connection, ground, begin)


def _is_of_interest(record: logging.LogRecord) -> bool:
    """Not an error, as which pyfuse3 has it: an answer whose caller went with the mount it had called."""
    gone = "fuse_reply_" in str(record.msg) and record.args == (os.strerror(errno.ENOENT),)
    if gone:
        log.debug("the caller has gone: %s", record.getMessage())
    return not gone


def _ground(place: Path, memo: Path | None) -> MountpointGuard:
    """The folder below, ready to be mounted on.  Raises `UserError`."""
    try:
        ground = MountpointGuard(place, memo)
    except OSError as error:
        message = f"The mountpoint {place} cannot be used: {error.strerror}."
        raise errors.UserError(message, exit_code=mounts.BAD_MOUNTPOINT) from None
    try:
        ground.open_up()
    except OSError as error:
        ground.close()
        message = f"The mountpoint {place} is not writable for this user: {error.strerror}."
        raise errors.UserError(message, exit_code=mounts.BAD_MOUNTPOINT) from None
    return ground


async def _answered(drive: Mounted) -> None:
    with trio.move_on_after(ANSWER):
        # In a thread: from the loop it would wait for itself.
        await threads.run_sync(os.stat, drive.mountpoint, abandon_on_cancel=True)
        return
    raise errors.UserError(f"The drive at {drive.mountpoint} is not responding.", exit_code=mounts.NO_FUSE)


def _options(fsname: str, *, allow_other: bool, read_only: bool, noexec: bool) -> set[str]:
    # default_permissions: the kernel checks mode bits, without which allow_other would let anybody write.
    options = {"default_permissions", f"fsname={fsname}", f"subtype={mounts.FSNAME}"}
    if allow_other:
        options.add("allow_other")
    if read_only:
        options.add("ro")  # the kernel says EROFS, and we are not even asked
    if noexec:
        options.add("noexec")
    return options


def _init(operations: Operations, mountpoint: Path, options: set[str]) -> None:
    with libfuse_output.caught() as printed:
        try:
            pyfuse3.init(operations, str(mountpoint), options)
        except RuntimeError:
            message = f"{mountpoint} cannot be mounted: {libfuse_output.reason(printed())}."
            raise errors.UserError(message, exit_code=mounts.NO_FUSE) from None
