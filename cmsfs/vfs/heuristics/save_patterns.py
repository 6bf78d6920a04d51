"""Recognizes how programs save files (replace by rename, truncate and write, ...).

Few programs write to the existing file.  Most write a new file and rename it over the old one; others rename
the old one to a backup, create a new file with its name, and keep or remove the backup.  Sent literally, this
would delete the old file with its version history, shared links and retention, or move them to the backup.
So a file that is created with a name which another file has just left takes over the identity of that file,
and its contents become the next version.

`SavePatterns` remembers created files and vacated names in memory; the other functions run inside the
caller's transaction.
"""

import logging
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.models import wire_names
from cmsfs.replica import inodes, tree
from cmsfs.replica.merge import lineages, local_work, name_conflicts
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import in_flight, node_rows, past_versions
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics.local_files import LocalFiles

log = logging.getLogger(__name__)

# A file created within this time that is renamed over another one is a save of the other one.
SAVE_SECONDS = 600.0

# Programs create the new file immediately after the old one was renamed or deleted.  If a person does this
# within the time, names and contents are the same; only the history stays with the name.
LEFT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class VacatedName:
    """A name that a file has left by rename or unlink, and when (monotonic)."""

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
        # Ordered by creation, so that the oldest are first.
        while self._born and not self.is_newborn(oldest := next(iter(self._born))):
            del self._born[oldest]
        self._born[ino] = clock.monotonic()

    def is_newborn(self, ino: Ino) -> bool:
        born = self._born.get(ino)
        return born is not None and clock.monotonic() - born < SAVE_SECONDS

    def note_left(self, ino: Ino, parent: Ino, name: str) -> None:
        """Record that a file has left this name, by rename or deletion."""
        now = clock.monotonic()
        while self._left and now - next(iter(self._left.values())).at > LEFT_SECONDS:
            left = self._left.pop(next(iter(self._left)))
            self._places.pop(left.ino, None)
        key = (parent, wire_names.name_key(name))
        self._left.pop(key, None)
        self._left[key] = VacatedName(ino, name, now)
        self._places[ino] = (parent, name)

    def who_left(self, parent: Ino, name: str) -> Ino | None:
        """Return the file that has just left this name."""
        left = self._left.get((parent, wire_names.name_key(name)))
        if left is None or left.name != name or clock.monotonic() - left.at > LEFT_SECONDS:
            return None
        return left.ino

    def place_left(self, ino: Ino) -> tuple[Ino, str] | None:
        """Return the folder and name that a node has just left."""
        place = self._places.get(ino)
        return place if place is not None and self.who_left(*place) == ino else None


def replace(conn: Connection, node: Node, target: Node, *, due_ns: int, was_born_here: bool) -> None:
    """Replace `target`, which is detached, by `node`: as its next version, or as a different file.

    `was_born_here`: the file was created on this drive a short while ago; then it is the new version of the
    file that it replaces, even if it has been uploaded as a separate file meanwhile.
    """
    if is_save(conn, node, target, was_born_here=was_born_here):
        take_over(conn, node, target, due_ns=due_ns)
    else:
        ops.record_removal(conn, target, due_ns=due_ns)


def stepped_aside(conn: Connection, target: Node) -> bool:
    """Keep `target` as a conflict copy instead of replacing or removing it; return whether this was done.

    This happens if a remote change has just moved it to this name and it has unsent contents, because the
    program cannot know that file.  A file that is only open is removed, but later writes to it are kept.
    """
    if not inodes.is_fresh(conn, target):
        return False
    if not local_work.has_only_copy(conn, target):
        if not target.is_folder and inodes.is_open(conn, target.ino):
            lineages.displace(conn, target)
        return False
    # The kernel cannot know the new name, and the caller handles the old one: no notification needed.
    name = name_conflicts.make_conflict_copy(conn, target, [])
    log.info(
        "a file had just been moved to the name %r; its pending changes are kept in %r", target.name, name
    )
    return True


@dataclass(frozen=True, slots=True)
class Follower:
    """The file that took the name of another one shortly after it was vacated."""

    ino: Ino
    was_born_here: bool


def remove(conn: Connection, node: Node, follower: Follower | None, *, due_ns: int) -> None:
    """Record the deletion of `node`, which is detached.

    If it is the backup of a save, under any name, the file that took its name takes over its identity.
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
    """Whether `node`, replacing `target`, is the next version of `target`."""
    if (
        node.kind is not NodeKind.FILE
        or target.kind not in (NodeKind.FILE, NodeKind.LINK)
        or target.remote_id is None
    ):
        return False
    return node.remote_id is None or (was_born_here and _is_whole_here(conn, node))


def _is_whole_here(conn: Connection, node: Node) -> bool:
    """Whether the complete contents of the file are on the local disk.

    If not, its newest version is from elsewhere, or is the base of the draft: then it is not just a temporary
    file of a save, and only the service has the contents that would have to be uploaded.
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
    """Make `node`, which has or gets the name of `target`, the next version of the item of `target`."""
    surplus = None
    if node.remote_id is not None:
        # It was already uploaded as a separate file, which is moved to the trash.
        surplus = tree.insert(conn, None, node.name, NodeKind.FILE, now_ns=clock.time_ns())
        ops.transfer_identity(conn, node.ino, surplus)
    ops.transfer_identity(conn, target.ino, node.ino)
    ops.record(conn, node.ino, ops.OpKind.UPLOAD, due_ns=due_ns)
    if surplus is not None:
        ops.record(conn, surplus, ops.OpKind.TRASH, due_ns=due_ns)
    if tree.get(conn, target.ino).parent is None:
        find_out(conn, target.ino, due_ns=due_ns)


def find_out(conn: Connection, ino: Ino, *, due_ns: int) -> None:
    """Have what was sent for a file of its own, without an answer, before it took over the item that it hands
    on, looked for and deleted."""
    if in_flight.is_pending(conn, ino):
        ops.record(conn, ino, ops.OpKind.TRASH, due_ns=due_ns)


def bring_back(conn: Connection, local_names: LocalFiles, ino: Ino, left: Ino | None, *, due_ns: int) -> None:
    """Make the file `ino` the next version of `left`, whose name it has taken, if this is a save.

    If `left` still exists, as a backup, it becomes a separate file.
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
        return  # the web link still exists, under another name
    if old.base_sha1 is not None and old.remote_id is not None and old.parent is not None:
        past_versions.keep(conn, old.base_sha1, old.remote_id, old.version)
    take_over(conn, node, old, due_ns=due_ns)
    ops.record_move(conn, tree.get(conn, ino), due_ns=due_ns)
    if old.parent is None:
        return
    parent = tree.get(conn, old.parent)
    if local_names.covers(parent, old.name, old.kind):
        find_out(conn, left, due_ns=due_ns)
        node_rows.set_local(conn, left, 1)
        return
    ops.record(conn, left, ops.OpKind.UPLOAD, due_ns=due_ns)
    # What was sent for it before it had that item becomes its item, wherever it is.
    ops.record_move(conn, tree.get(conn, left), due_ns=due_ns)


def _is_backup(local_names: LocalFiles, name: str, of: str) -> bool:
    """Whether `name` is the name of a backup of the file `of`: `f~`, `f.bak`, `.f.orig`."""
    return of in name or local_names.matches(name)
