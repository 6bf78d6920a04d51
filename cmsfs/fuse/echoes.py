"""Answers the requests of the helper process that raises inotify events, without carrying them out.

A remote change is in the tree before anybody is notified, and the kernel notifies watchers only of requests
made through it.  So a helper repeats each change on the mount (`echo_process`), and its requests are answered
here from the table of its tasks.  What it seems to create or remove is a ghost: an inode number that no other
process sees, under a name that the kernel must not cache, so that the next lookup gets the real node.

Rules: the helper is recognized by its PID, which cannot be reused before the helper is reaped.  It changes
nothing: requests that are not in the table are rejected.  No answer waits for anything, so the helper never
blocks, nor does any process that waits in the kernel for a folder that the helper has locked.
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

# Inode numbers of ghosts, above those of rows and virtual nodes.  Odd numbers are folders.
GHOST_BASE: Ino = (1 << 62) + (1 << 61)

# The handle that the helper gets for every open; it refers to nothing.
HANDLE = GHOST_BASE

# How many recently listed folders are remembered, and for how long.
_MAX_LISTED = 512
LISTED_SECONDS = 60.0

_CREATING = frozenset({echo_process.CREATE, echo_process.MKDIR})
_CHANGING = frozenset({echo_process.MODIFY, echo_process.TOUCH})


@dataclass(slots=True, eq=False)
class EchoTask:
    """One change to repeat on the mount.

    `ino`: the node that has changed, appeared or moved; `replacement`: the node that now has the old name of
    one that was removed or moved, or 0.
    """

    kind: bytes
    parent: Ino
    name: str
    is_folder: bool = False
    new_parent: Ino = 0
    new_name: str = ""
    ino: Ino = 0
    replacement: Ino = 0
    size: int = 0
    # Whether the kernel has looked the name up for the helper and got the ghost, not the node before it.
    is_looked_up: bool = False


class Echoes:
    """The helper's current tasks, and the answers to its requests."""

    def __init__(
        self, owner: convert.Owner | None = None, child: Callable[[Ino, str], Ino] | None = None
    ) -> None:
        """`child` returns the node that now has a name in a folder; 0 for none."""
        self._owner = owner or convert.owner()
        self._child = child or (lambda parent, name: 0)
        # PIDs of helpers.  Killed ones stay until they are reaped: their last requests may still arrive.
        self.pids: set[int] = set()
        self.helper_died = Signal()
        # Called with each helper's PID before its first request.
        self.on_helper: Callable[[int], None] = lambda pid: None
        self._names: dict[tuple[Ino, str], EchoTask] = {}
        self._changed: dict[Ino, EchoTask] = {}
        self._folders: set[Ino] = set()
        self._last_ghost = GHOST_BASE
        self._listed: OrderedDict[Ino, float] = OrderedDict()

    # ---- for the planner of tasks ----

    def set_tasks(self, tasks: Sequence[EchoTask]) -> None:
        """Replace the tasks; the helper may do these from now on, and nothing else."""
        self._names = {}
        self._changed = {}
        for task in tasks:
            if task.kind in _CHANGING:
                self._changed[task.ino] = task
                continue
            self._names[task.parent, task.name] = task
            if task.kind == echo_process.RENAME:
                self._names[task.new_parent, task.new_name] = task
        self._folders = {parent for parent, _ in self._names}

    def unfinished(self, tasks: Sequence[EchoTask]) -> list[EchoTask]:
        """Return those of these tasks that the helper has not done."""
        open_ = {*self._names.values(), *self._changed.values()}
        return [task for task in tasks if task in open_]

    def note_listing(self, folder: Ino) -> None:
        """Record that a program lists this folder, and so may be displaying it."""
        self._listed[folder] = clock.monotonic()
        self._listed.move_to_end(folder)
        if len(self._listed) > _MAX_LISTED:
            self._listed.popitem(last=False)

    def recently_listed(self) -> set[Ino]:
        """Return the folders that were listed within the last minute."""
        now = clock.monotonic()
        return {ino for ino, at in self._listed.items() if now - at < LISTED_SECONDS}

    # ---- for the handlers: requests of a helper ----

    def reject_helper(self, pid: int) -> None:
        """Raise `OSError` if a helper makes this request, which is never part of a task."""
        if pid in self.pids:
            raise _refused()

    def lookup(self, parent: Ino, name: bytes) -> pyfuse3.EntryAttributes | None:
        """Return the answer, or None to answer as for any other program."""
        key = (parent, convert.known_name(name))
        task = self._names.get(key)
        if task is None:
            return None
        if task.kind in _CREATING or key != (task.parent, task.name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        task.is_looked_up = True
        return self._ghost(is_folder=task.is_folder)

    def may_write(self, ino: Ino) -> bool:
        """Whether this inode must look writable to the helper, whatever this user's rights are."""
        return ino in self._folders or ino in self._changed

    def make(self, parent: Ino, name: bytes, kind: bytes) -> pyfuse3.EntryAttributes:
        """Answer a create or mkdir: pretend that it succeeded."""
        task = self._names.get((parent, convert.known_name(name)))
        if task is None or task.kind != kind:
            raise _refused()
        self._complete(task, is_current=self._child(parent, task.name) == task.ino)
        return self._ghost(is_folder=kind == echo_process.MKDIR)

    def remove(self, parent: Ino, name: bytes, kind: bytes) -> None:
        """Answer an unlink or rmdir: pretend that it succeeded."""
        task = self._names.get((parent, convert.known_name(name)))
        if task is None or task.kind != kind:
            raise _refused()
        self._require_ghost(task)
        self._complete(task, is_current=self._child(parent, task.name) == task.replacement)

    def rename(self, parent: Ino, name: bytes, new_parent: Ino, new_name: bytes) -> None:
        """Answer a rename: pretend that it succeeded."""
        task = self._names.get((parent, convert.known_name(name)))
        new = (new_parent, convert.known_name(new_name))
        if task is None or task.kind != echo_process.RENAME or new != (task.new_parent, task.new_name):
            raise _refused()
        self._require_ghost(task)
        there = (self._child(parent, task.name), self._child(new_parent, task.new_name))
        self._complete(task, is_current=there == (task.replacement, task.ino))

    def open(self, ino: Ino) -> pyfuse3.FileInfo:
        """Answer an open for writing with a handle that refers to nothing."""
        task = self._changed.get(ino)
        if task is None or task.kind != echo_process.MODIFY:
            raise _refused()
        return convert.idle_file(HANDLE)

    def change(self, ino: Ino) -> None:
        """Accept a change of attributes or size.  Raises `OSError` if no task asks for it."""
        task = self._changed.pop(ino, None)
        if task is None:
            raise _refused()

    def getattr(self, ino: Ino) -> pyfuse3.EntryAttributes:
        """Return the attributes of a ghost."""
        return self._attributes(ino)

    # ----

    def _complete(self, task: EchoTask, *, is_current: bool) -> None:
        """Remove the task.  Raises `OSError` (EAGAIN) if the tree has changed since it was planned: the
        kernel has reported a program's change itself, and a remote one is reported after this.  (The kernel
        lets no program change the folder during the helper's request.)"""
        self._names.pop((task.parent, task.name), None)
        if task.kind == echo_process.RENAME:
            self._names.pop((task.new_parent, task.new_name), None)
        if not is_current:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _require_ghost(self, task: EchoTask) -> None:
        """Raise ESTALE unless the kernel uses the ghost for this name: it would take the inode that it had
        cached for dead.  On ESTALE it looks the name up again and retries."""
        if not task.is_looked_up:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def _ghost(self, *, is_folder: bool) -> pyfuse3.EntryAttributes:
        self._last_ghost += 2
        return self._attributes(self._last_ghost | is_folder)

    def _attributes(self, ino: Ino) -> pyfuse3.EntryAttributes:
        found = convert.folder_entry(ino)
        found.st_mode = stat.S_IFDIR | 0o700 if ino & 1 else stat.S_IFREG | 0o600
        found.st_uid, found.st_gid, found.st_nlink = self._owner.uid, self._owner.gid, 1
        found.entry_timeout, found.attr_timeout = 0.0, convert.NEGATIVE_TIMEOUT
        return found


def _refused() -> OSError:
    return PermissionError(errno.EPERM, os.strerror(errno.EPERM))
