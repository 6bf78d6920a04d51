"""Kernel cache invalidation.

Code that applies remote changes publishes a `Change` after the commit; this module notifies the kernel.
Everything runs in ONE worker thread, because a notification waits in the kernel for any lookup in the same
folder, and such a lookup may be waiting for us (GOTCHAS.md, "Notifications").

pyfuse3 keeps one session in module globals, and a call on a closed session uses freed memory: all calls into
the kernel that do not answer a request go through `session`, and `mount` opens and closes it.

Rule: publishers never wait.  Nobody awaits a notification inside a handler or under a lock, and the event
loop sends none itself: a notification may wait in the kernel for requests that only the loop can answer.

Rule: if the kernel does not know an inode that we have returned to it, the notification is retried: our
answer may still be on its way to the caller.
"""

import contextlib
import errno
import logging
import threading
from collections.abc import Callable
from typing import Protocol

import pyfuse3
import trio

from cmsfs.fuse import convert
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import threads
from cmsfs.wakeup import Signal

log = logging.getLogger(__name__)

# ENOENT: the kernel does not know the inode or the name.  ENOTEMPTY, EBUSY: it cannot notify watchers of a
# folder that still contains something or has something mounted on it.  The name itself is invalidated in all
# three cases.  ENOSYS: FUSE_INIT has not arrived yet (libfuse knows no protocol version before), so the
# kernel has cached nothing.
_EXPECTED_ERRORS = frozenset({errno.ENOENT, errno.ENOTEMPTY, errno.EBUSY, errno.ENOSYS})

# Delays before a notification is retried that the kernel did not recognize or that had to be put off.  The
# program that asked for the inode may have to wait for a CPU before its system call takes our answer.
RETRY_SECONDS = (0.005, 0.05, 0.5)

# How long `open` waits for a running invalidation of the same file, which at most waits for reads of it.
INVALIDATION_WAIT_SECONDS = 1.0

# Commands that apply remote changes wait this long for them to become visible on the drive.
SETTLE_SECONDS = 3.0

_INCLUDING = frozenset({ChangeKind.GONE, ChangeKind.CONTENT})
_INCLUDED = frozenset({ChangeKind.ENTRY, ChangeKind.ATTRIBUTES})


class KernelSession:
    """This process's FUSE session, safe to call at any time; calls without a mount do nothing."""

    def __init__(self) -> None:
        # Held during a call, which may block in the kernel: only `close` waits for it, with a deadline.
        self._calling = threading.Lock()
        self._live = False
        # The inode of the invalidation in progress.
        self._invalidating: Ino | None = None
        # Handlers that wait for it to finish.
        self._waiting: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []

    def open(self) -> None:
        """Allow calls: the session exists from now on."""
        self._live = True

    def close(self, *, timeout: float) -> bool:
        """Block further calls; return whether the one in progress ended within `timeout`."""
        self._live = False
        if not self._calling.acquire(timeout=timeout):
            return False
        self._calling.release()
        return True

    def invalidate_inode(
        self, ino: Ino, *, attributes_only: bool, unless: Callable[[Ino], bool] | None = None
    ) -> bool:
        """Invalidate the kernel's cached attributes of an inode, and its pages too unless `attributes_only`.

        Does nothing and returns False if `unless` returns true at the last moment: code that makes it return
        true and then calls `wait_for_invalidation` is safe from this call.
        """
        with self._calling:
            self._invalidating = ino
            try:
                if unless and unless(ino):
                    return False
                if self._live:
                    pyfuse3.invalidate_inode(ino, attr_only=attributes_only)
                return True
            finally:
                self._invalidating = None
                waiting, self._waiting = self._waiting, []
                for token, ended in waiting:
                    with contextlib.suppress(trio.RunFinishedError):
                        token.run_sync_soon(ended.set)

    async def wait_for_invalidation(self, ino: Ino) -> None:
        """Wait until no invalidation of this inode is in progress; handlers call it before they answer.

        The kernel discards a file size that it requested before an invalidation and received after it, and
        the read that needed it then ends at the old size.
        """
        if self._invalidating != ino:
            return
        ended = trio.Event()
        self._waiting.append((trio.lowlevel.current_trio_token(), ended))
        if self._invalidating == ino:
            with trio.move_on_after(INVALIDATION_WAIT_SECONDS):
                await ended.wait()

    def expire_attributes(self, ino: Ino) -> None:
        """Make the kernel request an inode's attributes when it next needs them; handlers call it before they
        answer, where the notifier may be too late.

        Never waits: neither for the kernel nor for a call of the notifier, which may wait for the handler.
        """
        if self._live:
            with contextlib.suppress(OSError):
                pyfuse3.invalidate_inode(ino, attr_only=True)

    def invalidate_entry(self, parent: Ino, name: bytes, *, deleted: Ino = 0) -> None:
        """Invalidate a name; watchers of inode `deleted` are notified that it is gone."""
        with self._calling:
            if self._live:
                pyfuse3.invalidate_entry(parent, name, deleted)


session = KernelSession()


class InodeUse(Protocol):
    """What is known about the use of an inode by the kernel and by programs."""

    def opens(self, ino: Ino, /) -> int:
        """Return the number of open handles.  Called from the notifier's thread: a single dict lookup."""

    def is_refreshed(self, ino: Ino, /) -> bool:
        """Whether the answer to an `open` already told the kernel of the new contents.  Called as `opens`."""

    def is_known(self, ino: Ino, /) -> bool:
        """Whether the kernel may have cached anything about it, or names in it.  Called from any thread."""

    def has_denied(self, ino: Ino, /) -> bool:
        """Whether the kernel may have cached negative entries of this folder."""


class Notifier:
    """Takes changes from the hub and notifies the kernel, once per batch for each inode and each name."""

    def __init__(self, hub: Hub, inodes: InodeUse) -> None:
        self._inodes = inodes
        # Keys are (ino, "") for an inode and (parent, name) for an entry.  Bounded by the size of the tree: a
        # newer change replaces a waiting one of the same key.
        self._waiting: dict[tuple[Ino, str], Change] = {}
        self._posted = Signal()
        self._settled = Signal(is_set=True)
        self._thread = trio.CapacityLimiter(1)
        self._retrying_batches = 0  # number of batches being retried
        self._logged_errors: set[int] = set()
        self._is_held = False
        hub.subscribe(self._post)

    async def run(self) -> None:
        """Notify the kernel until cancelled.  Cancelled: a notification that waits in the kernel is left to
        finish by itself, and no further one starts once the mount closes."""
        self._retrying_batches = 0
        async with trio.open_nursery() as nursery:
            while True:
                await self._posted.wait()
                self._posted.clear()
                if self._is_held:
                    continue
                batch, self._waiting = list(self._waiting.values()), {}
                if to_retry := await self._notify_all(batch):
                    self._retrying_batches += 1
                    nursery.start_soon(self._retry, to_retry)
                self._update_settled()

    async def settled(self) -> None:
        """Wait until the kernel has heard of everything published so far.  Never call this in a handler."""
        await self._settled.wait()

    async def settled_soon(self) -> None:
        """Like `settled`, for a few seconds at most: a lookup that waits for the network delays it."""
        with trio.move_on_after(SETTLE_SECONDS):
            await self.settled()

    async def hold(self, seconds: float) -> bool:
        """Collect changes published from now on for `held_changes` instead of sending them.  Returns False,
        and holds nothing, if earlier changes are not sent within `seconds`."""
        with trio.move_on_after(seconds) as late:
            await self.settled()
        # atomic: no await since then
        self._is_held = not late.cancelled_caught
        return self._is_held

    def release(self) -> None:
        """Resume notifications, including those of held changes."""
        self._is_held = False
        self._posted.set()

    def held_changes(self) -> list[Change]:
        """Return the changes published since `hold`."""
        return list(self._waiting.values())

    async def _retry(self, changes: list[Change]) -> None:
        for seconds in RETRY_SECONDS:
            await trio.sleep(seconds)
            # Inodes that the kernel had really dropped have been forgotten (FORGET) meanwhile.
            if not (changes := [one for one in changes if self._inodes.is_known(one.ino)]):
                break
            changes = await self._notify_all(changes)
        if changes:
            # By now the first reads have received their sizes.
            await self._notify_all(changes, is_last_attempt=True)
        self._retrying_batches -= 1
        self._update_settled()

    def _update_settled(self) -> None:
        if not self._waiting and not self._retrying_batches:
            self._settled.set()

    def _post(self, changes: list[Change]) -> None:
        for change in changes:
            # A first listing adds a million names to folders that the kernel does not know.  It is committed
            # already, so lookups from now on see its result.
            place = change.ino if change.parent is None else change.parent
            if not self._inodes.is_known(place):
                continue
            # Skip new names in folders without negative entries: otherwise the first listing of an open
            # folder would cost a call for each item in it.
            if change.is_new and not self._inodes.has_denied(place):
                continue
            # Keep the change that covers both: GONE invalidates the name as ENTRY does, CONTENT includes
            # attributes.
            before = self._waiting.get((place, change.name))
            if before is None or before.what not in _INCLUDING or change.what not in _INCLUDED:
                self._waiting[place, change.name] = change
        if self._waiting:
            self._settled.clear()
            self._posted.set()

    async def _notify_all(self, changes: list[Change], *, is_last_attempt: bool = False) -> list[Change]:
        """Send these notifications; return the changes that must be retried."""
        return await threads.run_sync(
            self._in_thread, changes, is_last_attempt, limiter=self._thread, abandon_on_cancel=True
        )

    def _in_thread(self, changes: list[Change], is_last_attempt: bool) -> list[Change]:
        to_retry = []
        for change in changes:
            try:
                if not self.notify(change, is_last_attempt=is_last_attempt):
                    to_retry.append(change)
            except OSError as error:
                # Names need no retry: that call waits for every lookup in the folder.
                if error.errno == errno.ENOENT and change.parent is None:
                    to_retry.append(change)
                self._log_rejection(error)
        return to_retry

    def notify(self, change: Change, *, is_last_attempt: bool = False) -> bool:
        """Notify the kernel; may wait for requests that only the loop can answer.  Raises `OSError`.

        Returns False if the notification would come between an `open` that reported a new size and the first
        read, and so must be sent a moment later; on the last attempt it is sent anyway.
        """
        if change.is_new and self._inodes.is_known(change.ino):
            # The kernel has looked it up meanwhile; invalidating its name would end watches of it silently.
            return True
        match change.what, change.parent:
            case ChangeKind.ENTRY, int(parent):
                session.invalidate_entry(parent, convert.raw_name(change.name))
            case ChangeKind.GONE, int(parent):
                session.invalidate_entry(parent, convert.raw_name(change.name), deleted=change.ino)
            case ChangeKind.CONTENT, _:
                # A remote change never alters the bytes of an open file: `open` has dropped its pages since,
                # or its download was damaged.  Dropping pages here would wait for its reads.  If `open`
                # reported a new size, the first read may be requesting it right now.
                in_use = self._inodes.opens(change.ino) > 0
                session.invalidate_inode(change.ino, attributes_only=in_use, unless=self._inodes.is_refreshed)
            case _:
                unless = None if is_last_attempt else self._inodes.is_refreshed
                return session.invalidate_inode(change.ino, attributes_only=True, unless=unless)
        return True

    def _log_rejection(self, error: OSError) -> None:
        number = error.errno or 0
        if number in _EXPECTED_ERRORS:
            return
        level = logging.DEBUG if number in self._logged_errors else logging.WARNING
        self._logged_errors.add(number)
        log.log(level, "the kernel rejected a notification: %s", error)
