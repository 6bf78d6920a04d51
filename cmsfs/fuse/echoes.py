"""Answers the helper process that raises the kernel's events, without doing what it asks.

A change made elsewhere is in the tree before anybody is told, and the kernel tells watchers only of what goes
through it.  So a helper makes each change once more on the mount (`echo_process`), and is answered here from
a table of what it was told to make.  What it seems to make or remove is a ghost: an inode of a number that
nobody else is told, under a name that the kernel is not to remember: whoever asks next gets the truth.

Rules: the helper is known by its process, which cannot be another's before it was reaped.  It changes
nothing: what is not in the table is refused.  No answer waits for anything, so that the helper, and whoever
waits in the kernel for a folder that it has locked, goes on.
"""

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyfuse3

from cmsfs.fuse import convert, echo_process
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.wakeup import Signal

# Beyond the numbers of rows, and of virtual nodes.  Odd ones are folders.
GHOSTS: Ino = (1 << 62) + (1 << 61)

# The one handle that the helper gets; it stands for nothing.
HANDLE = GHOSTS

# How many folders are remembered that somebody has listed, and for how long each.
_MOST_LISTED = 512
LISTED_SECONDS = 60.0

_ABSENT_FIRST = frozenset({echo_process.CREATE, echo_process.MKDIR})
_CHANGED = frozenset({echo_process.MODIFY, echo_process.TOUCH})


@dataclass(slots=True, eq=False)
class EchoTask:
    """One thing to be made once more.

    `ino`: the node that has changed, appeared or moved; `leaves`: what is where something was taken away by
    now, or 0.
    """

    kind: bytes
    parent: Ino
    name: str
    is_folder: bool = False
    new_parent: Ino = 0
    new_name: str = ""
    ino: Ino = 0
    leaves: Ino = 0
    size: int = 0
    # Whether the helper's kernel side has the ghost for it, and not what stood there before.
    is_met: bool = False


class Echoes:
    """What the helper is to make now, and the answers to it."""

    def __init__(
        self, owner: convert.Owner | None = None, child: Callable[[Ino, str], Ino] | None = None
    ) -> None:
        """`child`: the node that is under a name in a folder now; 0 for none."""
        self._owner = owner or convert.owner()
        self._child = child or (lambda parent, name: 0)
        # Helpers, also those that were killed: until each is reaped, what it had asked may still come.
        self.pids: set[int] = set()
        self.helper_died = Signal()
        # Told of each helper before it asks anything: so that it is known whose questions those are.
        self.on_helper: Callable[[int], None] = lambda pid: None
        self._names: dict[tuple[Ino, str], EchoTask] = {}
        self._changed: dict[Ino, EchoTask] = {}
        self._folders: set[Ino] = set()
        self._last = GHOSTS
        self._listed: OrderedDict[Ino, float] = OrderedDict()

    # ---- for those who give the tasks ----

    def begin(self, tasks: Sequence[EchoTask]) -> None:
        """These are what the helper may make from now on, and nothing else."""
        self._names = {}
        self._changed = {}
        for task in tasks:
            if task.kind in _CHANGED:
                self._changed[task.ino] = task
                continue
            self._names[task.parent, task.name] = task
            if task.kind == echo_process.RENAME:
                self._names[task.new_parent, task.new_name] = task
        self._folders = {parent for parent, _ in self._names}

    def left(self, tasks: Sequence[EchoTask]) -> list[EchoTask]:
        """Those of these that the helper has not made."""
        open_ = {*self._names.values(), *self._changed.values()}
        return [task for task in tasks if task in open_]

    def note_listing(self, folder: Ino) -> None:
        """Somebody lists this folder, and may be showing it."""
        self._listed[folder] = clock.monotonic()
        self._listed.move_to_end(folder)
        if len(self._listed) > _MOST_LISTED:
            self._listed.popitem(last=False)

    def listed_lately(self) -> set[Ino]:
        """Folders that somebody has listed within the last minute."""
        now = clock.monotonic()
        return {ino for ino, at in self._listed.items() if now - at < LISTED_SECONDS}

    # ---- for the handlers, about requests of a helper ----

    def refuse(self, pid: int) -> None:
        """Nothing of this kind is ever the helper's to do.  Raises `OSError` if it asks."""
        if pid in self.pids:
            raise _refused()

    def lookup(self, parent: Ino, name: bytes) -> pyfuse3.EntryAttributes | None:
        """The answer; None: as for any other program."""
        key = (parent, convert.known_name(name))
        task = self._names.get(key)
        if task is None:
            return None
        if task.kind in _ABSENT_FIRST or key != (task.parent, task.name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        task.is_met = True
        return self._ghost(is_folder=task.is_folder)

    def may_write(self, ino: Ino) -> bool:
        """Whether the kernel is to let the helper change this, whatever this user's rights are."""
        return ino in self._folders or ino in self._changed

    def make(self, parent: Ino, name: bytes, kind: bytes) -> pyfuse3.EntryAttributes:
        """The answer to a create or a mkdir: made, as it seems."""
        task = self._names.get((parent, convert.known_name(name)))
        if task is None or task.kind != kind:
            raise _refused()
        self._end(task, is_so=self._child(parent, task.name) == task.ino)
        return self._ghost(is_folder=kind == echo_process.MKDIR)

    def remove(self, parent: Ino, name: bytes, kind: bytes) -> None:
        """The answer to an unlink or a rmdir: gone, as it was."""
        task = self._names.get((parent, convert.known_name(name)))
        if task is None or task.kind != kind:
            raise _refused()
        self._require_ghost(task)
        self._end(task, is_so=self._child(parent, task.name) == task.leaves)

    def rename(self, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes) -> None:
        """The answer to a rename: moved, as it was."""
        task = self._names.get((parent, convert.known_name(name)))
        new = (new_parent, convert.known_name(new_name))
        if task is None or task.kind != echo_process.RENAME or new != (task.new_parent, task.new_name):
            raise _refused()
        self._require_ghost(task)
        there = (self._child(parent, task.name), self._child(new_parent, task.new_name))
        self._end(task, is_so=there == (task.leaves, task.ino))

    def open(self, ino: Ino) -> pyfuse3.FileInfo:
        """The answer to an open for writing: a handle that stands for nothing."""
        task = self._changed.get(ino)
        if task is None or task.kind != echo_process.MODIFY:
            raise _refused()
        return convert.idle_file(HANDLE)

    def change(self, ino: Ino) -> None:
        """Whether the helper may seem to change a node.  Raises `OSError`: it may not."""
        task = self._changed.pop(ino, None)
        if task is None:
            raise _refused()

    def getattr(self, ino: Ino) -> pyfuse3.EntryAttributes:
        """What the kernel may ask of a ghost."""
        return self._attributes(ino)

    # ----

    def _end(self, task: EchoTask, *, is_so: bool) -> None:
        """The task is done.  Raises `OSError` if the tree has changed since: a program's change was told by
        the kernel itself, and another one is told after this.  (The kernel lets no program change the folder
        while the helper asks.)"""
        self._names.pop((task.parent, task.name), None)
        if task.kind == echo_process.RENAME:
            self._names.pop((task.new_parent, task.new_name), None)
        if not is_so:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _require_ghost(self, task: EchoTask) -> None:
        """Not on what the kernel had under this name: it would think that dead.  It then looks the name up
        once more, and comes again."""
        if not task.is_met:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def _ghost(self, *, is_folder: bool) -> pyfuse3.EntryAttributes:
        self._last += 2
        return self._attributes(self._last | is_folder)

    def _attributes(self, ino: Ino) -> pyfuse3.EntryAttributes:
        found = convert.folder_entry(ino)
        found.st_mode = stat.S_IFDIR | 0o700 if ino & 1 else stat.S_IFREG | 0o600
        found.st_uid, found.st_gid, found.st_nlink = self._owner.uid, self._owner.gid, 1
        found.entry_timeout, found.attr_timeout = 0.0, convert.NEGATIVE_TIMEOUT
        return found


def _refused() -> OSError:
    return PermissionError(errno.EPERM, os.strerror(errno.EPERM))
