"""Kernel cache invalidation.

Whoever applies remote changes publishes a `Change` after the commit; this module tells the kernel.
Everything runs in ONE worker thread, because a notification waits in the kernel for any lookup in the same
folder, and such a lookup may be waiting for us (GOTCHAS.md, "Notifications").

pyfuse3 keeps one session in module globals, and a call on a session that was closed uses freed memory: all
calls into the kernel that answer no request go through `session`, and `mount` says when it is live.

Rule: publishers post and go on.  Nobody awaits a notification inside a handler or under a lock, and the event
loop makes none: it waits in the kernel for requests that only the loop can answer.

Rule: what the kernel does not know although it has been told of it is said once more: our answer may still be
on its way to whoever asked.
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

# The kernel does not know the inode or the name; or it cannot tell watchers of a folder that still has
# something in it, or on it.  The name itself is forgotten in all three cases.  ENOSYS: the kernel has not
# said its first word yet (libfuse knows no protocol version until then), so it remembers nothing.
_NORMAL = frozenset({errno.ENOENT, errno.ENOTEMPTY, errno.EBUSY, errno.ENOSYS})

# After so long an inode of which the kernel did not know, or was not to be told, is spoken of again.  The
# program that asked for it may have to wait for a processor before its kernel side takes up our answer.
AGAIN_SECONDS = (0.005, 0.05, 0.5)

# So long is an invalidation waited for that an open file would meet: it waits for reads of that file at most.
MEET_SECONDS = 1.0

# Whoever asks for news to be taken over wants to see them on the drive.
SETTLE_SECONDS = 3.0

_INCLUDING = frozenset({ChangeKind.GONE, ChangeKind.CONTENT})
_INCLUDED = frozenset({ChangeKind.ENTRY, ChangeKind.ATTRIBUTES})


class KernelSession:
    """The one session of this process, safe to call into at any time; without a mount a call does nothing."""

    def __init__(self) -> None:
        # Held during a call, which may block in the kernel: only `closing` waits for it, with a deadline.
        self._calling = threading.Lock()
        self._live = False
        # The inode of the invalidation under way.
        self._invalidating: Ino | None = None
        # Handlers that wait for its end.
        self._waiting: list[tuple[trio.lowlevel.TrioToken, trio.Event]] = []

    def opened(self) -> None:
        """The session exists from now on."""
        self._live = True

    def closing(self, *, timeout: float) -> bool:
        """No further call begins; whether the one under way has ended within `timeout`."""
        self._live = False
        if not self._calling.acquire(timeout=timeout):
            return False
        self._calling.release()
        return True

    def invalidate_inode(
        self, ino: Ino, *, attributes_only: bool, unless: Callable[[Ino], bool] | None = None
    ) -> bool:
        """Forget the attributes of an inode, and its pages too unless `attributes_only`.

        Not if `unless` says so at the last moment (then False): whoever makes it say so, and then finds
        nothing under way (`met`), is safe from this call.
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

    async def met(self, ino: Ino) -> None:
        """Return when no invalidation of this inode is under way: for a handler, before its answer.

        An answer about the size of a file that the kernel asked for before an invalidation, and got after it,
        is thrown away, and the read that asked ends at the old size.
        """
        if self._invalidating != ino:
            return
        ended = trio.Event()
        self._waiting.append((trio.lowlevel.current_trio_token(), ended))
        if self._invalidating == ino:
            with trio.move_on_after(MEET_SECONDS):
                await ended.wait()

    def doubt_attributes(self, ino: Ino) -> None:
        """Have the kernel ask for the attributes of an inode when it needs them next: for a handler, before
        its answer, where the notifier may come too late.

        Never waits: not for the kernel, and not for a call of the notifier, which may wait for the handler.
        """
        if self._live:
            with contextlib.suppress(OSError):
                pyfuse3.invalidate_inode(ino, attr_only=True)

    def invalidate_entry(self, parent: Ino, name: bytes, *, deleted: Ino = 0) -> None:
        """Forget what a name stands for; those who watch inode `deleted` are told that it is gone."""
        with self._calling:
            if self._live:
                pyfuse3.invalidate_entry(parent, name, deleted)


session = KernelSession()


class Counts(Protocol):
    """What is known of an inode outside the tree."""

    def opens(self, ino: Ino, /) -> int:
        """How many handles are open on it.  Asked from the notifier's thread: one look into a dict."""

    def is_refreshed(self, ino: Ino, /) -> bool:
        """Whether an open handle's answer has told the kernel of the newest bytes.  Asked as `opens`."""

    def is_known(self, ino: Ino, /) -> bool:
        """Whether the kernel may remember anything of it, or of names in it.  Asked from any thread."""

    def has_denied(self, ino: Ino, /) -> bool:
        """Whether the kernel may remember of a name that it is not in this folder."""


class Notifier:
    """Takes changes from the hub and tells the kernel, each inode and each name once a batch."""

    def __init__(self, hub: Hub, inodes: Counts) -> None:
        self._inodes = inodes
        # By (ino, "") for an inode, (parent, name) for an entry.  Bounded by the tree: a change of something
        # that is waiting already takes its place.
        self._waiting: dict[tuple[Ino, str], Change] = {}
        self._posted = Signal()
        self._settled = Signal(is_set=True)
        self._thread = trio.CapacityLimiter(1)
        self._unheard = 0  # batches of what is to be told once more
        self._complained: set[int] = set()
        self._is_held = False
        hub.subscribe(self._post)

    async def run(self) -> None:
        """Tell the kernel until cancelled.  Cancelled: a notification that waits in the kernel is left to
        end by itself, and no further one begins once the mount closes."""
        self._unheard = 0
        async with trio.open_nursery() as nursery:
            while True:
                await self._posted.wait()
                self._posted.clear()
                if self._is_held:
                    continue
                batch, self._waiting = list(self._waiting.values()), {}
                if again := await self._tell_all(batch):
                    self._unheard += 1
                    nursery.start_soon(self._tell_again, again)
                self._note_settled()

    async def settled(self) -> None:
        """Wait until the kernel has heard everything published so far.  Never from a handler."""
        await self._settled.wait()

    async def settled_soon(self) -> None:
        """As `settled`, a few seconds at most: a lookup that waits for the network makes the kernel wait."""
        with trio.move_on_after(SETTLE_SECONDS):
            await self.settled()

    async def hold(self, seconds: float) -> bool:
        """Keep what is published from now on for `untold`; False, and nothing is kept, if the kernel has not
        heard within `seconds` of what was published before."""
        with trio.move_on_after(seconds) as late:
            await self.settled()
        # atomic: no await since then
        self._is_held = not late.cancelled_caught
        return self._is_held

    def go_on(self) -> None:
        """Tell the kernel again, also of what was kept."""
        self._is_held = False
        self._posted.set()

    def untold(self) -> list[Change]:
        """What was published since `hold`."""
        return list(self._waiting.values())

    async def _tell_again(self, changes: list[Change]) -> None:
        for seconds in AGAIN_SECONDS:
            await trio.sleep(seconds)
            # What the kernel had really forgotten it has given back meanwhile.
            if not (changes := [one for one in changes if self._inodes.is_known(one.ino)]):
                break
            changes = await self._tell_all(changes)
        if changes:
            # By now the first reads have their sizes.
            await self._tell_all(changes, at_last=True)
        self._unheard -= 1
        self._note_settled()

    def _note_settled(self) -> None:
        if not self._waiting and not self._unheard:
            self._settled.set()

    def _post(self, changes: list[Change]) -> None:
        for change in changes:
            # A first listing brings a million names into folders that the kernel has not heard of.  It was
            # committed before this; whoever makes the folder known from here on sees what it brought.
            place = change.ino if change.parent is None else change.parent
            if not self._inodes.is_known(place):
                continue
            # Nor what appears in a folder in which no name was ever missed: the first listing of one that is
            # open would be a call for each thing in it.
            if change.is_new and not self._inodes.has_denied(place):
                continue
            # The one change that does for both: GONE forgets the name as ENTRY does, CONTENT includes
            # attributes.
            before = self._waiting.get((place, change.name))
            if before is None or before.what not in _INCLUDING or change.what not in _INCLUDED:
                self._waiting[place, change.name] = change
        if self._waiting:
            self._settled.clear()
            self._posted.set()

    async def _tell_all(self, changes: list[Change], *, at_last: bool = False) -> list[Change]:
        """Tell these; those of them that are to be told once more."""
        return await threads.run_sync(
            self._in_thread, changes, at_last, limiter=self._thread, abandon_on_cancel=True
        )

    def _in_thread(self, changes: list[Change], at_last: bool) -> list[Change]:
        again = []
        for change in changes:
            try:
                if not self.tell(change, at_last=at_last):
                    again.append(change)
            except OSError as error:
                # About a name there is no doubt: that call waits for every lookup in the folder.
                if error.errno == errno.ENOENT and change.parent is None:
                    again.append(change)
                self._complain(error)
        return again

    def tell(self, change: Change, *, at_last: bool = False) -> bool:
        """Tell the kernel; it may wait for requests that only the loop can answer.  Raises `OSError`.

        False: it would come between `open`, which has told of another size, and the first read, and is to be
        told a moment later; `at_last` it is told all the same.
        """
        if change.is_new and self._inodes.is_known(change.ino):
            # It was met under this name since: whoever watches it would hear nothing of a name forgotten.
            return True
        match change.what, change.parent:
            case ChangeKind.ENTRY, int(parent):
                session.invalidate_entry(parent, convert.raw_name(change.name))
            case ChangeKind.GONE, int(parent):
                session.invalidate_entry(parent, convert.raw_name(change.name), deleted=change.ino)
            case ChangeKind.CONTENT, _:
                # News never change the bytes of an open file: it was opened since, and its pages dropped,
                # or they came wrong.  Dropping them here would wait for its reads.  Where `open` has told
                # of another size, its first read may be asking for that at this moment.
                in_use = self._inodes.opens(change.ino) > 0
                session.invalidate_inode(change.ino, attributes_only=in_use, unless=self._inodes.is_refreshed)
            case _:
                unless = None if at_last else self._inodes.is_refreshed
                return session.invalidate_inode(change.ino, attributes_only=True, unless=unless)
        return True

    def _complain(self, error: OSError) -> None:
        number = error.errno or 0
        if number in _NORMAL:
            return
        level = logging.DEBUG if number in self._complained else logging.WARNING
        self._complained.add(number)
        log.log(level, "the kernel rejected a notification: %s", error)
