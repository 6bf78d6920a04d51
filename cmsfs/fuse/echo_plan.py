"""Collects events that watchers of folders have not received yet, and plans the helper's tasks to raise them.

For each changed name we keep what it referred to before; what it refers to now is looked up when the tasks
are planned.  So several changes of one name are merged, and what came and went in between raises no event.
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

# Limit of pending names; beyond it events are lost, as with inotify's own queue (16,384).
MAX_PENDING = 16_384


class Place(NamedTuple):
    """A node and its location."""

    ino: Ino
    parent: Ino | None
    name: str
    is_folder: bool
    size: int


class Places(Protocol):
    """Reads the current tree."""

    def child(self, parent: Ino, name: str, /) -> Place | None:
        """Return the node with this name."""

    def find(self, ino: Ino, /) -> Place | None:
        """Return a node's location."""

    def is_listed(self, folder: Ino, /) -> bool:
        """Whether a folder has been listed completely."""

    def is_successor(self, ino: Ino, /) -> bool:
        """Whether a node took its name over from one that was open when its contents changed remotely."""

    def inodes_of(self, shown: set[int], /) -> set[Ino]:
        """Return the nodes that programs see under these inode numbers."""


class TreePlaces:
    """`Places` of the replica, without hidden nodes."""

    def __init__(self, db: Database, hides: Callable[[Node], bool]) -> None:
        self._db = db
        self._hides = hides

    def child(self, parent: Ino, name: str) -> Place | None:
        node = tree.find_child(self._db, parent, name)
        if node is None or self._hides(node):
            return None
        return Place(node.ino, node.parent, node.name, node.is_folder, node.size)

    def child_number(self, parent: Ino, name: str) -> Ino:
        """Return the inode of the node with this name; 0 if there is none."""
        place = self.child(parent, name)
        return 0 if place is None else place.ino

    def find(self, ino: Ino) -> Place | None:
        node = tree.find(self._db, ino)
        return node and Place(node.ino, node.parent, node.name, node.is_folder, node.size)

    def is_listed(self, folder: Ino) -> bool:
        return tree.is_listed(self._db, folder)

    def is_successor(self, ino: Ino) -> bool:
        return lineages.is_successor(self._db, ino)

    def inodes_of(self, shown: set[int]) -> set[Ino]:
        return numbers.inodes_of(self._db, shown)


@dataclass(frozen=True, slots=True)
class _Previous:
    """What a name referred to when watchers were last notified: a node, or nothing (0)."""

    ino: Ino
    is_folder: bool = False


_Key = tuple[Ino, str]


class PendingEvents:
    """Changes that watchers have not been notified of, bounded."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._names: dict[_Key, _Previous] = {}
        self._changed: dict[Ino, ChangeKind] = {}
        # Nodes that were created or moved remotely; the kernel itself reports those of programs.
        self._arrived: set[Ino] = set()

    def __bool__(self) -> bool:
        return bool(self._names or self._changed)

    def note(self, changes: Iterable[Change], is_known: Callable[[Ino], bool]) -> None:
        """Record changes of files and folders that the kernel knows; call after their commit."""
        listed: dict[Ino, bool] = {}
        for change in changes:
            if len(self._names) + len(self._changed) >= MAX_PENDING:
                return
            if change.parent is None:
                self._note_node(change, is_known)
            # Inode 0: a program made this change, through the kernel.
            elif change.ino and is_known(change.parent):
                self._arrived.add(change.ino)
                if (change.parent, change.name) in self._names:
                    continue
                if change.is_new and change.parent not in listed:
                    listed[change.parent] = self._places.is_listed(change.parent)
                if change.is_new and not listed[change.parent]:
                    continue  # the folder's first listing: nobody has seen it without this entry
                self._names[change.parent, change.name] = self._previous(change)

    def _note_node(self, change: Change, is_known: Callable[[Ino], bool]) -> None:
        if change.is_same or self._changed.get(change.ino) is ChangeKind.CONTENT:
            return
        place = self._places.find(change.ino)
        if place is not None and place.parent is not None and is_known(place.parent):
            self._changed[change.ino] = change.what

    def _previous(self, change: Change) -> _Previous:
        if change.is_new:
            return _Previous(0)
        place = self._places.find(change.ino)
        is_in_place = place is not None and (place.parent, place.name) == (change.parent, change.name)
        if is_in_place and change.what is ChangeKind.ENTRY:
            # The name was free: if a node had moved away from it, that change was recorded first.  Except
            # that a successor took the name over from an open file.
            return _Previous(-1 if self._places.is_successor(change.ino) else 0)
        return _Previous(change.ino, place is not None and place.is_folder)

    def take(self, watched: Collection[Ino]) -> list[EchoTask]:
        """Return the tasks for these watched folders and files, in order, and forget all pending events."""
        names = {key: before for key, before in self._names.items() if key[0] in watched}
        changed, self._names, self._changed = self._changed, {}, {}
        arrived, self._arrived = self._arrived, set()
        plan = _Plan(self._places, names, arrived)
        return [*plan.tasks(), *self._change_tasks(changed, plan, watched)]

    def _change_tasks(
        self, changed: dict[Ino, ChangeKind], plan: "_Plan", watched: Collection[Ino]
    ) -> Iterable[EchoTask]:
        for ino, what in changed.items():
            place = self._places.find(ino)
            if place is None or place.parent is None or ino in plan.created:
                continue
            if ino in plan.moved and what is ChangeKind.ATTRIBUTES:
                continue
            if place.parent in watched or ino in watched:
                yield _change(place, is_content=what is ChangeKind.CONTENT)


class _Plan:
    """Plans tasks that lead from what some names referred to before to what they refer to now."""

    def __init__(self, places: Places, names: dict[_Key, _Previous], arrived: set[Ino]) -> None:
        self._names = names
        self._now = {key: places.child(*key) for key in names}
        self._arrived = arrived
        # Nodes reported as new, and as moved: watchers then look at the whole file, so no further event.
        self.created: set[Ino] = set()
        self.moved: set[Ino] = set()

    def tasks(self) -> Iterable[EchoTask]:
        """Yield removals, then moves, then creations and replacements."""
        at = {place.ino: key for key, place in self._now.items() if place is not None}
        moves = {
            key: at[before.ino]
            for key, before in self._names.items()
            if before.ino > 0 and before.ino in at and at[before.ino] != key
        }
        targets = set(moves.values())
        for key, before in self._names.items():
            if before.ino and key not in moves and (self._now[key] is None or key in targets):
                yield self._removal(key)
        yield from self._moves(moves)
        for key, before in self._names.items():
            now = self._now[key]
            if now is None or key in targets or now.ino == before.ino or now.ino not in self._arrived:
                continue
            if not before.ino or key in moves:
                yield self._creation(key)
            elif not now.is_folder:
                yield _change(now, is_content=True)

    def _moves(self, left: dict[_Key, _Key]) -> Iterable[EchoTask]:
        """Yield each move when its target name is free; break a cycle by a removal and a creation."""
        came: list[_Key] = []
        while left:
            free = next((old for old, new in left.items() if new not in left), None)
            old = free or next(iter(left))
            new = left.pop(old)
            if free is None:
                yield self._removal(old)
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
                replacement=self._replacement(old),
            )
        yield from map(self._creation, came)

    def _replacement(self, key: _Key) -> Ino:
        now = self._now[key]
        return 0 if now is None else now.ino

    def _removal(self, key: _Key) -> EchoTask:
        is_folder = self._names[key].is_folder
        kind = echo_process.RMDIR if is_folder else echo_process.UNLINK
        return EchoTask(kind, *key, is_folder=is_folder, replacement=self._replacement(key))

    def _creation(self, key: _Key) -> EchoTask:
        now = self._now[key]
        assert now is not None
        self.created.add(now.ino)
        kind = echo_process.MKDIR if now.is_folder else echo_process.CREATE
        return EchoTask(kind, *key, is_folder=now.is_folder, ino=now.ino)


def _change(place: Place, *, is_content: bool) -> EchoTask:
    kind = echo_process.MODIFY if is_content and not place.is_folder else echo_process.TOUCH
    assert place.parent is not None
    return EchoTask(kind, place.parent, place.name, ino=place.ino, size=place.size)
