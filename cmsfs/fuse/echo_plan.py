"""What watchers of folders have not heard yet, and what the helper must make for them to hear it.

Kept is what was under each name before; what is there now is looked at when the tasks are made.  So whatever
happens to a name meanwhile counts once, and what came and went is nobody's news.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cmsfs.fuse import echo_process
from cmsfs.fuse.echoes import EchoTask
from cmsfs.replica import numbers, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import lineages
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database

# So many names are kept; beyond, watchers have to look for themselves, as with inotify's own queue (16,384).
MOST = 16_384


class Place(NamedTuple):
    """A node and where it is."""

    ino: Ino
    parent: Ino | None
    name: str
    is_folder: bool
    size: int


class Places(Protocol):
    """The tree, as it is now."""

    def child(self, parent: Ino, name: str, /) -> Place | None:
        """What is under a name."""

    def find(self, ino: Ino, /) -> Place | None:
        """Where a node is."""

    def is_listed(self, folder: Ino, /) -> bool:
        """Whether everything in a folder is known."""

    def is_heir(self, ino: Ino, /) -> bool:
        """Whether a node has its name from another one that was open when its bytes changed."""

    def shown_as(self, shown: set[int], /) -> set[Ino]:
        """The nodes that have these inode numbers for programs."""


class TreePlaces:
    """The places of the replica, without the nodes that are not shown."""

    def __init__(self, db: Database, hides: Callable[[Node], bool]) -> None:
        self._db = db
        self._hides = hides

    def child(self, parent: Ino, name: str) -> Place | None:
        node = tree.find_child(self._db, parent, name)
        if node is None or self._hides(node):
            return None
        return Place(node.ino, node.parent, node.name, node.is_folder, node.size)

    def child_number(self, parent: Ino, name: str) -> Ino:
        """The node that is under a name; 0 for none."""
        place = self.child(parent, name)
        return 0 if place is None else place.ino

    def find(self, ino: Ino) -> Place | None:
        node = tree.find(self._db, ino)
        return node and Place(node.ino, node.parent, node.name, node.is_folder, node.size)

    def is_listed(self, folder: Ino) -> bool:
        return tree.is_listed(self._db, folder)

    def is_heir(self, ino: Ino) -> bool:
        return lineages.is_successor(self._db, ino)

    def shown_as(self, shown: set[int]) -> set[Ino]:
        return numbers.inodes_of(self._db, shown)


@dataclass(frozen=True, slots=True)
class _Before:
    """What watchers believe to be under a name: a node, or nothing (0)."""

    ino: Ino
    is_folder: bool = False


_Key = tuple[Ino, str]


class Unheard:
    """Changes that watchers have not heard of, bounded."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._names: dict[_Key, _Before] = {}
        self._changed: dict[Ino, ChangeKind] = {}
        # Nodes that came to their place from elsewhere; what programs made the kernel has told of.
        self._arrived: set[Ino] = set()

    def __bool__(self) -> bool:
        return bool(self._names or self._changed)

    def note(self, changes: Iterable[Change], is_known: Callable[[Ino], bool]) -> None:
        """Keep what these say of folders and files that the kernel knows.  After their commit."""
        listed: dict[Ino, bool] = {}
        for change in changes:
            if len(self._names) + len(self._changed) >= MOST:
                return
            if change.parent is None:
                self._note_node(change, is_known)
            # Number 0: a program did it, through the kernel.
            elif change.ino and is_known(change.parent):
                self._arrived.add(change.ino)
                if (change.parent, change.name) in self._names:
                    continue
                if change.is_new and change.parent not in listed:
                    listed[change.parent] = self._places.is_listed(change.parent)
                if change.is_new and not listed[change.parent]:
                    continue  # a first listing: nobody has seen the folder without it
                self._names[change.parent, change.name] = self._before(change)

    def _note_node(self, change: Change, is_known: Callable[[Ino], bool]) -> None:
        if change.is_same or self._changed.get(change.ino) is ChangeKind.CONTENT:
            return
        place = self._places.find(change.ino)
        if place is not None and place.parent is not None and is_known(place.parent):
            self._changed[change.ino] = change.what

    def _before(self, change: Change) -> _Before:
        if change.is_new:
            return _Before(0)
        place = self._places.find(change.ino)
        is_here = place is not None and (place.parent, place.name) == (change.parent, change.name)
        if is_here and change.what is ChangeKind.ENTRY:
            # It came to a free name; what was moved from there before has been noted.  But a file that was
            # open has handed its name on.
            return _Before(-1 if self._places.is_heir(change.ino) else 0)
        return _Before(change.ino, place is not None and place.is_folder)

    def take(self, watched: Collection[Ino]) -> list[EchoTask]:
        """What is to be made in these folders, and about these files, in this order; all is heard then."""
        names = {key: before for key, before in self._names.items() if key[0] in watched}
        changed, self._names, self._changed = self._changed, {}, {}
        arrived, self._arrived = self._arrived, set()
        plan = _Plan(self._places, names, arrived)
        return [*plan.tasks(), *self._changes(changed, plan, watched)]

    def _changes(
        self, changed: dict[Ino, ChangeKind], plan: "_Plan", watched: Collection[Ino]
    ) -> Iterable[EchoTask]:
        for ino, what in changed.items():
            place = self._places.find(ino)
            if place is None or place.parent is None or ino in plan.shown:
                continue
            if ino in plan.moved and what is ChangeKind.ATTRIBUTES:
                continue
            if place.parent in watched or ino in watched:
                yield _change(place, is_content=what is ChangeKind.CONTENT)


class _Plan:
    """From what was under some names to what is."""

    def __init__(self, places: Places, names: dict[_Key, _Before], arrived: set[Ino]) -> None:
        self._names = names
        self._now = {key: places.child(*key) for key in names}
        self._arrived = arrived
        # Nodes that watchers hear of as new, and as moved: whoever hears that looks at all of it.
        self.shown: set[Ino] = set()
        self.moved: set[Ino] = set()

    def tasks(self) -> Iterable[EchoTask]:
        """Removals, moves, what is new, and what took another's name."""
        at = {place.ino: key for key, place in self._now.items() if place is not None}
        moves = {
            key: at[before.ino]
            for key, before in self._names.items()
            if before.ino > 0 and before.ino in at and at[before.ino] != key
        }
        targets = set(moves.values())
        for key, before in self._names.items():
            if before.ino and key not in moves and (self._now[key] is None or key in targets):
                yield self._gone(key)
        yield from self._moves(moves)
        for key, before in self._names.items():
            now = self._now[key]
            if now is None or key in targets or now.ino == before.ino or now.ino not in self._arrived:
                continue
            if not before.ino or key in moves:
                yield self._new(key)
            elif not now.is_folder:
                yield _change(now, is_content=True)

    def _moves(self, left: dict[_Key, _Key]) -> Iterable[EchoTask]:
        """Each to a name that is free by then; where they go in a ring, one goes and comes instead."""
        came: list[_Key] = []
        while left:
            free = next((old for old, new in left.items() if new not in left), None)
            old = free or next(iter(left))
            new = left.pop(old)
            if free is None:
                yield self._gone(old)
                came.append(new)
                continue
            ino = self._names[old].ino
            self.moved.add(ino)
            yield EchoTask(
                echo_process.RENAME,
                *old,
                is_folder=self._names[old].is_folder,
                new_parent=new[0],
                new_name=new[1],
                ino=ino,
                leaves=self._leaves(old),
            )
        yield from map(self._new, came)

    def _leaves(self, key: _Key) -> Ino:
        now = self._now[key]
        return 0 if now is None else now.ino

    def _gone(self, key: _Key) -> EchoTask:
        is_folder = self._names[key].is_folder
        kind = echo_process.RMDIR if is_folder else echo_process.UNLINK
        return EchoTask(kind, *key, is_folder=is_folder, leaves=self._leaves(key))

    def _new(self, key: _Key) -> EchoTask:
        now = self._now[key]
        assert now is not None
        self.shown.add(now.ino)
        kind = echo_process.MKDIR if now.is_folder else echo_process.CREATE
        return EchoTask(kind, *key, is_folder=now.is_folder, ino=now.ino)


def _change(place: Place, *, is_content: bool) -> EchoTask:
    kind = echo_process.MODIFY if is_content and not place.is_folder else echo_process.TOUCH
    assert place.parent is not None
    return EchoTask(kind, place.parent, place.name, ino=place.ino, size=place.size)
