"""Collects recent events for the user: transfers, remote changes, conflicts, refusals.

Each module reports its events here directly; the drive's web page shows and stores them.

Rule: reporting writes nothing and looks up nothing but the path of an item; the number of events is limited.
"""

import socket
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal

MOST = 500

# Placeholder for an unnamed user.
OTHERS = "others"

# Maximum number of events per page of remote changes; nobody reads more of a copied folder.
MOST_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Happening:
    """One event."""

    at: int  # seconds since the epoch
    what: str  # uploaded, downloaded, created, renamed, changed, deleted, conflict, refused
    path: str
    who: str = ""  # "" for this computer
    more: str = ""  # the previous name, or the reason
    size: int = 0

    def as_dict(self) -> dict[str, Any]:
        # `asdict` copies each value: of all that are kept that was 30 ms of the loop.
        return {key: value for key in self.__slots__ if (value := getattr(self, key)) not in ("", 0)}


class Happenings:
    """Collects events; `told` is set when there are new ones."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.recent: deque[Happening] = deque(maxlen=MOST)
        self.told = Signal()
        self.fetched: Counter[str] = Counter()  # bytes downloaded by SHA-1 since the last `take_downloads`
        self.bytes_up = self.bytes_down = 0  # since the start
        self._conflicts = 0
        self._last_conflict = ""

    def note(self, what: str, path: str, *, who: str = "", more: str = "", size: int = 0) -> None:
        """Add an event that happens now."""
        if self.fetched:
            self.take_downloads()  # in their order
        self.recent.append(Happening(int(clock.time()), what, path, who, more, size))
        self.told.set()

    def sent(self, what: str, ino: Ino, *, size: int = 0) -> None:
        """Add an event for a local change that is uploaded."""
        self.bytes_up += size
        path = tree.path(self._db, ino)
        if path.startswith("("):  # it has no path any more
            path = path.removeprefix("(").removesuffix(")")
        self.note(what, path, size=size)

    def fetched_bytes(self, sha1: str, nbytes: int) -> None:
        """Count downloaded bytes of a content.  They become events later, all at once, and wake nobody: this
        runs for every read."""
        self.bytes_down += nbytes
        self.fetched[sha1] += nbytes
        if len(self.fetched) > MOST:
            del self.fetched[next(iter(self.fetched))]

    def take_downloads(self) -> None:
        """Add events for the downloads counted so far."""
        found, self.fetched = self.fetched, Counter()
        for sha1, nbytes in found.items():
            inos = tree.nodes_with_content(self._db, sha1)
            path = tree.path(self._db, inos[0]) if inos else ""
            last = self.recent[-1] if self.recent else None
            if last is not None and (last.what, last.path) == ("downloaded", path):
                self.recent.pop()
                nbytes += last.size
            if path.startswith("/"):
                self.note("downloaded", path, size=nbytes)

    def conflicts_told(self) -> tuple[int, str]:
        """Return the number of conflict copies made here since the start, and the name of the last one."""
        return self._conflicts, self._last_conflict

    def look_for_conflicts(self, made: Sequence[Change]) -> None:
        """Add events for the conflict copies among these changes."""
        for one in made:
            if one.what is not ChangeKind.ENTRY or one.parent is None or naming.CONFLICT_MARK not in one.name:
                continue
            if naming.original_name(one.name) is None:
                continue
            node = tree.find_child(self._db, one.parent, one.name)
            if node is None:
                continue
            self.note("conflict", tree.path(self._db, node.ino))
            if f"{naming.CONFLICT_MARK}{socket.gethostname()}, " in one.name:
                self._conflicts += 1
                self._last_conflict = one.name

    def heard(self, found: Sequence[items.Item | object], made: Sequence[Change]) -> None:
        """Add events for remote changes that have been applied."""
        who: Mapping[tuple[NodeKind, str], str] = {
            (NodeKind(one.type), one.id): one.modified_by.name or one.modified_by.login or ""
            for one in found
            if isinstance(one, items.File | items.Folder | items.WebLink) and one.modified_by is not None
        }
        by_node: dict[Ino, list[Change]] = {}
        for change in made:
            by_node.setdefault(change.ino, []).append(change)
        for number, (ino, changes) in enumerate(by_node.items()):
            if number < MOST_AT_ONCE:
                self._tell(ino, changes, who)
            else:
                self.look_for_conflicts(changes)

    def _tell(self, ino: Ino, changes: Sequence[Change], who: Mapping[tuple[NodeKind, str], str]) -> None:
        gone = next((one for one in changes if one.what is ChangeKind.GONE and one.parent is not None), None)
        if gone is not None and gone.parent is not None:
            above = tree.path(self._db, gone.parent).rstrip("/")
            self.note("deleted", f"{above}/{gone.name}", who=OTHERS)
            return
        node = tree.find(self._db, ino)
        if node is None or node.parent is None:
            return
        names = [one for one in changes if one.what is ChangeKind.ENTRY]
        here = [one for one in names if (one.parent, one.name) == (node.parent, node.name)]
        left = [one for one in names if one not in here]
        path = tree.path(self._db, ino)
        by = who.get((node.kind, node.remote_id or ""), "") or OTHERS
        if naming.CONFLICT_MARK in node.name and naming.original_name(node.name) is not None:
            self.look_for_conflicts(changes)
            return
        if here and left:
            more = left[0].name if left[0].parent == node.parent else "moved"
            self.note("renamed", path, who=by, more=more)
        elif any(one.is_new for one in here):
            self.note("created", path, who=by, size=node.size)
        elif any(one.what is ChangeKind.CONTENT for one in changes):
            self.note("changed", path, who=by, size=node.size)
