"""Mounts the file system, serves requests, and unmounts.

Use `mounted` once per process: pyfuse3 keeps its session in module globals.  The daemon enters it when
everything that the handlers need is running, and leaves it before any of that stops.

Rule: handlers are never cancelled while a caller waits for them.  The drive is detached from its mountpoint
first, open files are served a little longer, handlers finish, and only after a deadline is the connection
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
from cmsfs.fuse.handler import InFlightRequests, NonRepeatable
from cmsfs.fuse.operations import Operations
from cmsfs.mountpoint_guard import MountpointGuard
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# How long a detached drive still serves programs that have files open on it.  A shell whose working directory
# is on the drive counts too, so shutting down must not wait long for this.
LINGER = 2.0

# How long handlers may then take; the systemd unit gives the daemon 90 seconds to stop.
DEADLINE = 20.0

# How long the first stat of the mountpoint may take; it involves the root folder only.
FIRST_STAT_SECONDS = 30.0

# Maximum number of concurrent requests.  pyfuse3's 99 could all be reads that wait for the network, and `ls`
# of a listed folder would then wait with them.  Surplus tasks end when they are idle.
TASKS = 256

# How long requests may take to finish before the connection is handed over.  Then repeatable requests that
# wait for the network are abandoned, and the kernel sends them again.
DRAIN_SECONDS = 0.5

# How long to wait for requests that must not be carried out twice, for example while the service is slow.
CHANGE_WAIT_SECONDS = 10.0
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Inheritance:
    """A mounted drive that no process serves: the kernel's descriptor, the folder under the mount, and that
    folder's mode to restore.  `is_blind`: it is unknown which changes the kernel was notified of."""

    connection: int
    ground: int
    mode: int
    is_blind: bool = False


class Mounted:
    """A mounted drive: its mountpoint, its FUSE connection, and when it is unmounted."""

    def __init__(
        self,
        mountpoint: Path,
        connection: int,
        ground: MountpointGuard,
        begin: Callable[[int], Awaitable[None]],
    ) -> None:
        """`begin` starts a session on a descriptor of the connection."""
        self.mountpoint = mountpoint
        self.ground = ground
        self.connection = connection
        self._switch = mounts.AbortSwitch(connection)
        # Set when no more requests arrive: we stopped, or somebody unmounted the drive.
        self.unmounted = trio.Event()
        # The request loop is shielded from outside cancellation, or callers would never be answered.
        self._serving = trio.CancelScope(shield=True)
        self._begin = begin
        self._has_session = True
        # While suspended: set when no request is being answered any more, and when serving is to resume.
        self._suspended: trio.Event | None = None
        self._resumed = trio.Event()
        # Another process serves the drive from now on.
        self.is_handed_over = False

    @property
    def is_attached(self) -> bool:
        """Whether this drive is what is mounted at the mountpoint."""
        found = mounts.find(self.mountpoint)
        return found is not None and found.connection == self.connection

    def abort(self) -> bool:
        """Abort the connection; callers get an error.  For use from another thread, when the loop is stuck.

        Does nothing to a connection that has ended.  Returns False if this user may not abort it.
        """
        return self._switch.abort()

    async def serve(self) -> None:
        """Answer requests until the drive is unmounted."""
        try:
            while self._has_session:
                with self._serving:
                    await pyfuse3.main(min_tasks=1, max_tasks=TASKS)
                if self._suspended is None:
                    break
                # A cancellation from outside takes effect here.
                self._suspended.set()
                await self._resumed.wait()
        finally:
            self.unmounted.set()

    async def suspend(self) -> int:
        """Stop answering requests and return the connection's descriptor, which the caller now owns.

        New requests wait for `resume`, or for the process that is given the descriptor.  Raises `UserError`,
        and keeps serving, if a request that must not be carried out twice does not finish.
        """
        if not await self._wait_until_idle() or self.unmounted.is_set():
            raise errors.UserError("A program waits for the service on the drive; try again in a moment.")
        if not await threads.run_sync(partial(notifier.session.close, timeout=CHANGE_WAIT_SECONDS)):
            notifier.session.open()
            raise errors.UserError("The kernel waits for the drive; try again in a moment.")
        descriptor = takeover.duplicate_connection()
        suspended = self._suspended = trio.Event()
        self._resumed = trio.Event()
        pyfuse3.terminate()
        with trio.move_on_after(DRAIN_SECONDS):
            await suspended.wait()
        while not suspended.is_set():
            if takeover.can_resend() and not NonRepeatable.in_flight:
                self._serving.cancel()
            with trio.move_on_after(POLL_SECONDS):
                await suspended.wait()
        pyfuse3.close(unmount=False)
        self._has_session = False
        if takeover.has_ended(descriptor):
            os.close(descriptor)
            self._resumed.set()
            raise errors.UserError("The drive was unmounted.")
        return descriptor

    async def _wait_until_idle(self) -> bool:
        """Wait until no request is in progress that must not be abandoned; False if one does not finish.

        On a kernel that cannot resend, no request may be abandoned that has outlasted one poll; shorter ones
        are waited for after the session has stopped reading new ones.
        """
        before = set[int]()
        with trio.move_on_after(CHANGE_WAIT_SECONDS):
            while True:
                waiting = InFlightRequests.ids & before if not takeover.can_resend() else set[int]()
                if not NonRepeatable.in_flight and not waiting and (before or takeover.can_resend()):
                    return True
                before = set(InFlightRequests.ids) | {-1}
                with trio.move_on_after(POLL_SECONDS):
                    await self.unmounted.wait()
                    return False
        return False

    async def resume(self, descriptor: int) -> None:
        """Serve requests again after `suspend`.  Raises `OSError`."""
        try:
            await self._begin(descriptor)
            self._has_session = True
            notifier.session.open()
        finally:
            os.close(descriptor)
            self._suspended, self._serving = None, trio.CancelScope(shield=True)
            self._resumed.set()

    def hand_over(self) -> None:
        """Keep the drive mounted when this context closes: another process now serves the descriptor."""
        self.is_handed_over = True

    async def stop(self, *, linger: float, deadline: float) -> None:
        """Detach the drive from its mountpoint and stop serving, in an order that loses nothing."""
        if self.unmounted.is_set():
            # Somebody unmounted it, or the loop failed: then callers would wait for ever.
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
        """Close the session; callers that still wait get an error."""
        # A notification may be waiting in the kernel for a request that is no longer answered.
        await threads.run_sync(self.abort)
        if not await threads.run_sync(partial(notifier.session.close, timeout=5.0)):
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
    """Serve a drive at `mountpoint` while the context is open; with `over`, hide existing contents there.

    `memo` is the file that preserves the folder's mode across a crash.  `inherited`: the drive is already
    mounted there and was served by another process.

    Raises `UserError` with the reason if it cannot be mounted.  Ends cleanly if somebody else unmounts it:
    `Mounted.unmounted` is set.  Exceptions from inside are raised as an `ExceptionGroup`, as by a nursery.
    Cancelled: the drive is still shut down cleanly, which takes at most `linger` and `deadline`.
    """
    options = _options(fsname, allow_other=allow_other, read_only=read_only, noexec=noexec)
    request_turns.install()
    begin = partial(takeover.begin_session, operations, options)
    logging.getLogger("pyfuse3").addFilter(_is_not_stale_reply)
    if inherited is not None:
        drive = await _take_over(begin, mounts.located(mountpoint), memo, inherited)
    else:
        mounts.require_fuse()
        place = await threads.run_sync(partial(mounts.prepare, mountpoint, create=create, over=over))
        await threads.run_sync(mounts.ensure_fusectl)
        ground = _open_ground(place, memo)
        try:
            _init(operations, place, options)
        except BaseException:
            ground.give_back()
            ground.close()
            raise
        ground.bar()
        # Looked up in the kernel's mount table: this process must not access the mount itself.
        found = mounts.find(place)
        drive = Mounted(place, found.connection if found else -1, ground, begin)
    notifier.session.open()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.serve, name="fuse")
            try:
                await _wait_until_responsive(drive)
                # Not earlier: the kernel sets the read-ahead when FUSE_INIT is answered.
                mounts.raise_read_ahead(drive.connection)
                yield drive
            finally:
                if drive.is_handed_over:
                    nursery.cancel_scope.cancel()
                else:
                    with trio.CancelScope(shield=True):
                        await drive.stop(linger=linger, deadline=deadline)
    finally:
        if not drive.is_handed_over:
            with trio.CancelScope(shield=True):
                await drive.close()


async def _take_over(
    begin: Callable[[int], Awaitable[None]], place: Path, memo: Path | None, inherited: Inheritance
) -> Mounted:
    """Take over a drive that another process has mounted.  On `UserError` it is no longer mounted."""
    found = mounts.find(place)
    ground = MountpointGuard(place, memo, inherited=(inherited.ground, inherited.mode))
    try:
        if found is None or not found.is_drive:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        await begin(inherited.connection)
        if inherited.is_blind:
            takeover.expire_names(inherited.connection)
    except OSError as error:
        ground.close()
        message = f"The drive at {place} cannot be taken over: {error.strerror}."
        raise errors.UserError(message, exit_code=mounts.NO_FUSE) from None
    finally:
        # If the takeover failed this is the last descriptor: closing it gives all callers an error.
        os.close(inherited.connection)
    return Mounted(place, found.connection, ground, begin)


def _is_not_stale_reply(record: logging.LogRecord) -> bool:
    """Drop pyfuse3's error about a reply whose caller has gone; it is logged at DEBUG instead."""
    gone = "fuse_reply_" in str(record.msg) and record.args == (os.strerror(errno.ENOENT),)
    if gone:
        log.debug("the caller has gone: %s", record.getMessage())
    return not gone


def _open_ground(place: Path, memo: Path | None) -> MountpointGuard:
    """Open the folder under the mount and prepare it for mounting.  Raises `UserError`."""
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


async def _wait_until_responsive(drive: Mounted) -> None:
    with trio.move_on_after(FIRST_STAT_SECONDS):
        # In a thread: the loop itself must answer this request.
        await threads.run_sync(os.stat, drive.mountpoint, abandon_on_cancel=True)
        return
    raise errors.UserError(f"The drive at {drive.mountpoint} is not responding.", exit_code=mounts.NO_FUSE)


def _options(fsname: str, *, allow_other: bool, read_only: bool, noexec: bool) -> set[str]:
    # default_permissions: the kernel checks mode bits, without which allow_other would let anybody write.
    options = {"default_permissions", f"fsname={fsname}", f"subtype={mounts.FSNAME}"}
    if allow_other:
        options.add("allow_other")
    if read_only:
        options.add("ro")  # the kernel answers EROFS without asking us
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
