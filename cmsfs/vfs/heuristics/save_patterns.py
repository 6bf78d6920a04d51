"""Recognizes how programs save files (replace by rename, truncate and write, ...).

Few write into the file that they opened.  Most write a new file and rename it over the old one; others
rename the old one away, make a new one in its place, and remove the backup or leave it.  Sent as it happens,
that would delete the old file with its history, links and retention, or send them away with the backup.
So whatever is made at a place that was left a moment ago takes over the identity of what left it, and its
bytes become the next version.

`SavePatterns` remembers, in memory, what was made and what left; the rest runs inside one transaction of
the caller.
"""

import logging
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.models import wire_names
from cmsfs.replica import inodes, tree
from cmsfs.replica.merge import lineages, local_work, name_conflicts
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics.local_files import LocalFiles

log = logging.getLogger(__name__)

# A file made this recently that is renamed over another is somebody's way to save the other.
SAVE_SECONDS = 600.0

# Between the rename away (or the deletion) and the new file programs do nothing that takes time.  What a
# person does by hand within it ends with the same names and bytes; the history goes with the name.
LEFT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class VacatedName:
    """A name that a file left by rename or unlink: which, and when (monotonic)."""

    ino: Ino
    name: str
    at: float


class SavePatterns:
    """Remembers what was created, renamed away or removed a short while ago."""

    def __init__(self) -> None:
        self._born: dict[Ino, float] = {}
        self._left: dict[tuple[Ino, str], VacatedName] = {}
        self._places: dict[Ino, tuple[Ino, str]] = {}

    def note_birth(self, ino: Ino) -> None:
        # In the order of their birth, so that the old ones are found at the front.
        while self._born and not self.is_newborn(oldest := next(iter(self._born))):
            del self._born[oldest]
        self._born[ino] = clock.monotonic()

    def is_newborn(self, ino: Ino) -> bool:
        born = self._born.get(ino)
        return born is not None and clock.monotonic() - born < SAVE_SECONDS

    def note_left(self, ino: Ino, parent: Ino, name: str) -> None:
        """A file has left this place, by rename or deletion."""
        now = clock.monotonic()
        while self._left and now - next(iter(self._left.values())).at > LEFT_SECONDS:
            left = self._left.pop(next(iter(self._left)))
            self._places.pop(left.ino, None)
        key = (parent, wire_names.name_key(name))
        self._left.pop(key, None)
        self._left[key] = VacatedName(ino, name, now)
        self._places[ino] = (parent, name)

    def who_left(self, parent: Ino, name: str) -> Ino | None:
        """Who left this place a moment ago."""
        left = self._left.get((parent, wire_names.name_key(name)))
        if left is None or left.name != name or clock.monotonic() - left.at > LEFT_SECONDS:
            return None
        return left.ino

    def place_left(self, ino: Ino) -> tuple[Ino, str] | None:
        """The place that a node left a moment ago."""
        place = self._places.get(ino)
        return place if place is not None and self.who_left(*place) == ino else None


def replace(conn: Connection, node: Node, target: Node, *, due_ns: int, was_born_here: bool) -> None:
    """`node` takes the place of `target`, which is detached: as its next version, or as another file.

    `was_born_here` says that the file was made on this drive a short while ago: then it is the new version
    of what it replaces, even if it has been uploaded as a file of its own meanwhile.
    """
    if is_save(conn, node, target, was_born_here=was_born_here):
        take_over(conn, node, target, due_ns=due_ns)
    else:
        ops.record_removal(conn, target, due_ns=due_ns)


def stepped_aside(conn: Connection, target: Node) -> bool:
    """Before `target` is replaced or removed: whether it has stepped aside instead, as a conflict copy.

    It does if it has just come to this name with bytes that only we have: nobody has seen it here.  A file
    that is merely open goes; but whoever has it open has not given it up, so what is written to it is kept.
    """
    if not inodes.is_fresh(conn, target):
        return False
    if not local_work.has_bytes(conn, target):
        if not target.is_folder and inodes.is_open(conn, target.ino):
            lineages.displace(conn, target)
        return False
    # Of the new name nobody has asked yet, and the old one is the caller's: the kernel need not be told.
    name = name_conflicts.make_conflict_copy(conn, target, [])
    log.info(
        "a file had just been moved to the name %r; its pending changes are kept in %r", target.name, name
    )
    return True


@dataclass(frozen=True, slots=True)
class Follower:
    """The file that took the name of another a moment later."""

    ino: Ino
    was_born_here: bool


def remove(conn: Connection, node: Node, follower: Follower | None, *, due_ns: int) -> None:
    """`node` is deleted, which is detached: for good, or as the backup that a save does not need any more.

    A backup of any name gives its identity to the file that took its place.
    """
    if follower is not None:
        new = tree.find_at(conn, follower.ino)
        born_here = follower.was_born_here
        if new is not None and new.parent is not None and is_save(conn, new, node, was_born_here=born_here):
            take_over(conn, new, node, due_ns=due_ns)
            ops.record_move(conn, tree.get(conn, new.ino), due_ns=due_ns)
            return
    ops.record_removal(conn, node, due_ns=due_ns)


def is_save(conn: Connection, node: Node, target: Node, *, was_born_here: bool) -> bool:
    """Whether `node` in the place of `target` is the next version of `target`."""
    if (
        node.kind is not NodeKind.FILE
        or target.kind not in (NodeKind.FILE, NodeKind.LINK)
        or target.remote_id is None
    ):
        return False
    return node.remote_id is None or (was_born_here and _is_whole_here(conn, node))


def _is_whole_here(conn: Connection, node: Node) -> bool:
    """Whether every byte of the file is on this disk.

    If not, its newest version is somebody else's, or lies under what is written: then it is more than our
    way to save the other, and the service alone has what would have to be sent.
    """
    base = conn.execute("SELECT base_sha1 AS sha1 FROM draft WHERE id = ?", (node.draft,)).fetchone()
    sha1 = base["sha1"] if base is not None else node.sha1
    if sha1 is None or not node.size:
        return True
    return (
        conn.execute("SELECT 1 FROM content WHERE sha1 = ? AND bitmap IS NULL", (sha1,)).fetchone()
        is not None
    )


def take_over(conn: Connection, node: Node, target: Node, *, due_ns: int) -> None:
    """`node`, which is or comes to be where `target` was, becomes the next version of its item."""
    surplus = None
    if node.remote_id is not None:
        # It had become a file of its own at the service already: that one goes to the trash.
        surplus = tree.insert(conn, None, node.name, NodeKind.FILE, now_ns=clock.time_ns())
        ops.transfer_identity(conn, node.ino, surplus)
    ops.transfer_identity(conn, target.ino, node.ino)
    ops.record(conn, node.ino, ops.OpKind.UPLOAD, due_ns=due_ns)
    if surplus is not None:
        ops.record(conn, surplus, ops.OpKind.TRASH, due_ns=due_ns)


def bring_back(conn: Connection, local_names: LocalFiles, ino: Ino, left: Ino | None, *, due_ns: int) -> None:
    """The file `ino` stands where `left` was a moment ago: as its next version, if that is what it is.

    What left, if it is still somewhere, becomes a file of its own there.
    """
    old = tree.find_at(conn, left) if left is not None else None
    if left is None or old is None or left == ino:
        return
    node = tree.get(conn, ino)
    if old.parent is None:
        if ops.pending(conn, left).get(ops.OpKind.TRASH) != "ready":
            return
    elif not _is_backup(local_names, old.name, node.name) or old.parent != node.parent:
        return
    if not is_save(conn, node, old, was_born_here=False):
        return
    if old.kind is NodeKind.LINK and old.parent is not None:
        return  # it is still one, under another name
    if old.base_sha1 is not None and old.remote_id is not None and old.parent is not None:
        tree.keep_version(conn, old.base_sha1, old.remote_id, old.version)
    take_over(conn, node, old, due_ns=due_ns)
    ops.record_move(conn, tree.get(conn, ino), due_ns=due_ns)
    if old.parent is None:
        return
    parent = tree.get(conn, old.parent)
    if local_names.covers(parent, old.name, old.kind):
        node_rows.set_local(conn, left, 1)
    else:
        ops.record(conn, left, ops.OpKind.UPLOAD, due_ns=due_ns)


def _is_backup(local_names: LocalFiles, name: str, of: str) -> bool:
    """Whether a file called `name` is what a program leaves of one called `of`: `f~`, `f.bak`, `.f.orig`."""
    return of in name or local_names.matches(name)
