"""Applies remote items to the tree and then invalidates the kernel's caches; the only way in.

Listings and polls pass their pages to `apply`. Items that the push is creating at this moment are deferred:
an item on a page may be our own, whose response is still in flight, and would be taken for somebody else's
item of the same name; and so are items that it is moving for a node that does not have them any more. The
same applies to requests without a response (`replica.rows.in_flight`), until the push has found out. Deferred
updates (`merge.local_work`) are settled later.

Rule: publish after the commit.
"""

import functools
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from sqlite3 import Connection
from typing import NamedTuple

from cmsfs.models import wire_names
from cmsfs.models.content import entries, items
from cmsfs.replica import changes, kv_store, tree
from cmsfs.replica.merge import apply_remote, deletions, local_work
from cmsfs.replica.nodes import Ino, ItemKey, Node, NodeKind, Remote, remote_from_item
from cmsfs.replica.rows import in_flight
from cmsfs.replica.sharing import offers
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core.creations import Creations, Place
from daemon.core.happenings import Happenings
from daemon.core.known_deletions import KnownDeletions
from daemon.core.unstorable import BLAMED, UnstorableItems

log = logging.getLogger(__name__)


# Limit of remembered items that were found gone: an older page may still arrive when the item's row is gone.
REMEMBERED = 10_000


class _Removal(NamedTuple):
    """When an item was removed without a report of its deletion."""

    generation: int
    number: int


class RemovedItem(NamedTuple):
    """An item that the service does not have or show any more; `sequence` of its deletion, None: not
    reported."""

    kind: NodeKind
    id: str
    sequence: int | None = None


class RemoteUpdates:
    """Applies items of the service to the replica and publishes what changed."""

    def __init__(self, db: Database, hub: changes.Hub) -> None:
        self._db = db
        self._hub = hub
        self.creations = Creations()
        # Items that are being moved or renamed, and the nodes that had them at the request.
        self._moving: dict[ItemKey, Ino] = {}
        self.deleted = KnownDeletions(db)
        self._removed: OrderedDict[ItemKey, _Removal] = OrderedDict()
        self.removals = 0  # number of removals without a report
        # Items in a listing whose reported deletion is newer.
        self._disputed: OrderedDict[ItemKey, None] = OrderedDict()
        self._move_ended = Signal()
        self.misfits = UnstorableItems()
        self._watches: list[set[ItemKey]] = []
        self.applied = 0  # number of changes since the start
        self.happenings = Happenings(db)
        # Called after what others changed is applied: it may be a reason to send something, as a folder that
        # is still needed here, or what an operation waits for.
        self.wake_push: Callable[[], None] = lambda: None

    def making(self, parent_id: str, name: str) -> AbstractContextManager[None]:
        """Return a context while an item of this name is being created in this folder."""
        return self.creations.under_way(parent_id, name)

    @contextmanager
    def moving(self, key: ItemKey, ino: Ino) -> Iterator[None]:
        """Context while the item of this node is being renamed or moved."""
        self._moving[key] = ino
        try:
            yield
        finally:
            self._moving.pop(key, None)
            self._move_ended.pulse()

    @contextmanager
    def watching(self) -> Iterator[Set[ItemKey]]:
        """Context in which the returned set receives the items that are applied: that one of them is gone may
        be the older news, if it is the answer to a request from before."""
        shown: set[ItemKey] = set()
        self._watches.append(shown)
        try:
            yield shown
        finally:
            self._watches = [one for one in self._watches if one is not shown]

    def is_moved_for_another(self, key: ItemKey, ino: Ino) -> bool:
        """Whether the item that this node has is being moved at this moment to where another node was, which
        had it before: until the answer its place says nothing about that of the node."""
        return self._moving.get(key, ino) != ino

    async def other_move_ended(self, key: ItemKey, ino: Ino) -> bool:
        """Wait while the item is being moved for another node; return whether it was."""
        waited = False
        while self.is_moved_for_another(key, ino):
            waited = True
            await self._move_ended.wait()
        return waited

    def is_moving(self, key: ItemKey) -> bool:
        """Whether the item is being renamed or moved."""
        return key in self._moving

    def is_being_made(self, folder: str, name_key: str) -> bool:
        """Whether an item of this name in this folder may be our own, whose response is pending."""
        return (folder, name_key) in self.creations.places | in_flight.places(self._db)

    async def apply(
        self,
        found: Sequence[items.Item | entries.Entry],
        gone: Sequence[RemovedItem] = (),
        *,
        generation: int | None = None,
        settled: Sequence[local_work.DeferredUpdate] = (),
        believed: apply_remote.Believed | None = None,
        note: Callable[[Connection], None] | None = None,
        is_answer: bool = False,
        removals: int | None = None,
    ) -> int:
        """Update the tree to these items (`generation` is that of a listing), remove those in `gone`, and
        call `note`, in one transaction, which also ends the deferred updates `settled` by it.  Items that are
        `believed` may be older than the known state; an `is_answer` to our own request is no change by
        others; `removals` is their number before a poll asked for the items.

        Items are moved out of a deleted folder before it is removed.  Returns the number of changes.
        """
        if not found and not gone and not settled and note is None:
            return 0
        # An item whose creation begins while the transaction waits cannot be on this page, unless an earlier
        # attempt created it, which the push expects.  Nor can an answer contain it: that is about an item
        # known by its ID.
        making = set() if is_answer else self.creations.places | in_flight.places(self._db)
        remotes, waiting, not_here = self._sorted(found, making)
        left_out: list[Remote] = []
        here: list[Remote] = []
        outdated: list[ItemKey] = []

        def txn(conn: Connection) -> list[changes.Change]:
            if settled:
                local_work.end_deferral(conn, settled)

            # Not before: a deletion may have been committed while this transaction waited.
            def is_current(one: Remote) -> bool:
                is_outdated = (
                    self.deleted and self._is_from_before_deletion(conn, one, believed or {})
                ) or self._is_from_before_removal(conn, one, generation, removals)
                if is_outdated:
                    outdated.append((one.kind, one.id))
                return not is_outdated

            for one in filter(is_current, waiting):
                if local_work.defer_longer(conn, one.kind, one.id, one.sequence):
                    continue
                key = wire_names.name_key(one.name)
                local_work.defer(
                    conn,
                    local_work.DeferredUpdate(
                        one.kind, one.id, one.sequence, folder=one.parent_id, name_key=key
                    ),
                )
            number = kv_store.generation(conn) if generation is None else generation
            here.extend(filter(is_current, remotes))
            # A listing may be older than the known state; such items are requested.
            take = functools.partial(
                apply_remote.apply, generation=number, is_listing=generation is not None, believed=believed
            )
            made = _applied(conn, here, take, left_out) if here else []
            # An item that cannot be stored is not thereby deleted.
            for one in (*not_here, *left_out):
                tree.note_seen(conn, one.kind, one.id, number)
            for each in gone:
                made += self._vanish(conn, each)
            if note is not None:
                note(conn)
            return made

        made = await self._db.write(txn)
        for watch in self._watches:
            watch.update((one.kind, one.id) for one in here)
        if generation is not None:
            # Not in the transaction, whose thread would race with who asks for them.
            self._disputed.update(dict.fromkeys(outdated))
        for one in left_out:
            self.misfits.note(one.kind, one.id, "it could not be applied; see the log")
        self.applied += len(made)
        self._hub.publish(made, is_own=is_answer)
        if not is_answer:
            self.wake_push()
        # A listing reports no new changes.
        if made and generation is None and not is_answer:
            self.happenings.heard(found, made)
        return len(made)

    def forget_deleted(self, conn: Connection) -> None:
        """Forget deletions after the service was restored: items may exist again with lower numbers."""
        self.deleted.forget_all(conn)
        self._removed.clear()

    def disputed(self) -> list[ItemKey]:
        """Return items listed and ignored as deleted since the last call: the service must be asked."""
        found = list(self._disputed)
        self._disputed.clear()
        return found

    def are_there(self, conn: Connection, keys: Iterable[ItemKey]) -> None:
        """Forget the deletion of items that the service confirms to have."""
        for key in keys:
            self.deleted.forget(conn, key)
            self._removed.pop(key, None)

    def last_known(self, key: ItemKey) -> int | None:
        """Return the sequence of the item's latest known state, which may be its deletion."""
        node = tree.find_remote(self._db, *key)
        return node.sequence if node is not None else self.deleted.sequence(key)

    def was_deleted(self, item: items.Item) -> bool:
        """Whether this state of an item is from before its deletion, of which we have heard since."""
        one = remote_from_item(item)
        node = tree.find_remote(self._db, one.kind, one.id)
        if node is None:
            return self.deleted.is_later((one.kind, one.id), one.sequence)
        return node.parent is None and node.base_parent is None and one.sequence < node.sequence

    def has_left(self, item: items.Item) -> bool:
        """Whether this state of an item is from before it left its place there, of which we have heard
        since."""
        one = remote_from_item(item)
        node = tree.find_remote(self._db, one.kind, one.id)
        if node is None or one.sequence >= node.sequence:
            return False
        return (node.base_parent, node.base_name) != (one.parent_id, one.name)

    async def answered(self, found: Sequence[changes.Change], item: items.Item) -> None:
        """Publish changes that the caller has committed with the service's answer about this item, and remove
        it again if its deletion was reported before the answer arrived."""
        self.publish(found)
        await self.follow_deletion(item)

    async def follow_deletion(self, item: items.Item | entries.Entry) -> None:
        """Remove an item that an answer to us told of, if its deletion was reported before that arrived."""
        one = remote_from_item(item)
        key = (one.kind, one.id)
        sequence = self.deleted.sequence(key)
        if sequence is not None and one.sequence < sequence:
            await self.apply([], [RemovedItem(one.kind, one.id, sequence)])
        elif key in self._removed or self.creations.were_compared(one.parent_id, one.name):
            # It was gone when it was asked for, perhaps with a folder, of whose contents nobody reports; or
            # its deletion may be among the changes that were missed.
            def ask(conn: Connection) -> None:
                self._removed.pop(key, None)
                local_work.defer(conn, local_work.DeferredUpdate(one.kind, one.id, local_work.ANYHOW))

            await self._db.write(ask)

    def publish(self, found: Sequence[changes.Change]) -> None:
        """Publish changes that the caller has committed."""
        self.applied += len(found)
        self._hub.publish(found)
        self.wake_push()
        self.happenings.look_for_conflicts(found)

    def _sorted(
        self, found: Sequence[items.Item | entries.Entry], making: Set[Place]
    ) -> tuple[list[Remote], list[Remote], list[Remote]]:
        """Split items into those to apply now, those to defer as possibly our own, and those that cannot be
        stored."""
        now: list[Remote] = []
        later: list[Remote] = []
        never: list[Remote] = []
        for one in map(remote_from_item, found):
            if (problem := one.problem) is not None:
                self.misfits.note(one.kind, one.id, problem)
                never.append(one)
                continue
            if self.misfits.known:
                self.misfits.known.pop((one.kind, one.id), None)
            is_ours = (making and self._is_ours(one, making)) or (self._moving and self._is_passing(one))
            (later if is_ours else now).append(one)
        return now, later, never

    def _is_from_before_deletion(
        self, conn: Connection, one: Remote, believed: apply_remote.Believed
    ) -> bool:
        """A row that is still there has the sequence of its deletion, with which the merge compares.

        The row may have gone during a request for the item, whose answer is `believed` as before.
        """
        key = (one.kind, one.id)
        is_before = self.deleted.is_later(key, max(one.sequence, believed.get(key, -1)))
        return is_before and tree.remote_at(conn, one.kind, one.id) is None

    def _is_from_before_removal(
        self, conn: Connection, one: Remote, generation: int | None, removals: int | None
    ) -> bool:
        """Whether a listing or poll, which began before the item was found gone, shows it."""
        if (removed := self._removed.get((one.kind, one.id))) is None:
            return False
        node = tree.remote_at(conn, one.kind, one.id)
        if node is not None and (node.parent is not None or node.base_parent is not None):
            return False
        if generation is not None:
            return generation <= removed.generation
        return removals is not None and removals < removed.number

    def _is_ours(self, one: Remote, making: Set[Place]) -> bool:
        if tree.find_remote(self._db, one.kind, one.id) is not None:
            return False
        # Somebody may have moved it since it was deferred.
        place = (one.parent_id, wire_names.name_key(one.name))
        return place in making or local_work.deferred_place(self._db, one.kind, one.id) in making

    def _is_passing(self, one: Remote) -> bool:
        node = tree.find_remote(self._db, one.kind, one.id)
        return node is not None and self.is_moved_for_another((one.kind, one.id), node.ino)

    def _vanish(self, conn: Connection, one: RemovedItem) -> list[changes.Change]:
        node = tree.remote_at(conn, one.kind, one.id)
        if node is None or node.parent is None:
            offers.forget(conn, one.kind, one.id)
        # A deletion older than the known state was followed by a restore.
        if node is not None and one.sequence is not None and one.sequence < node.sequence:
            return []
        if one.sequence is not None:
            self.deleted.note(conn, (one.kind, one.id), one.sequence)
        if one.sequence is None:
            self._note_removed(conn, (one.kind, one.id))
        if node is None:
            return []
        if node.is_folder:
            self._note_deleted_below(conn, node)
        if node.parent is None and node.base_parent is None:
            # It was deleted before; older updates may have restored its contents.
            deletions.ignore_older(conn, node.ino, one.sequence or 0)
            return deletions.remove_below(conn, node.ino) if node.is_folder else []
        return deletions.remove_gone(conn, node.ino, sequence=one.sequence or 0)

    def _note_deleted_below(self, conn: Connection, folder: Node) -> None:
        """Remember what goes with a folder, which nobody reports: an older page may show it where it was
        before it was moved there.  Our own new item may have been moved there, too, before the answer to its
        creation arrives, which then tells of an item that never changed."""
        below = deletions.items_below(conn, folder.ino, is_new_too=bool(self.creations.places))
        for key, sequence in below:
            self.deleted.note(conn, key, sequence)

    def _note_removed(self, conn: Connection, key: ItemKey) -> None:
        self.removals += 1
        self._removed.pop(key, None)
        self._removed[key] = _Removal(kv_store.generation(conn), self.removals)
        while len(self._removed) > REMEMBERED:
            self._removed.popitem(last=False)


def _applied(
    conn: Connection,
    remotes: Sequence[Remote],
    take: Callable[[Connection, Sequence[Remote]], list[changes.Change]],
    left_out: list[Remote],
) -> list[changes.Change]:
    """Apply all of them together; if that fails, one by one without the ones that fail."""
    conn.execute("SAVEPOINT page")
    try:
        return take(conn, remotes)
    except BLAMED:
        log.exception("unexpected error while applying a page of remote changes; applying them one by one")
        conn.execute("ROLLBACK TO page")
    made: list[changes.Change] = []
    for one in remotes:
        conn.execute("SAVEPOINT item")
        try:
            made += take(conn, [one])
        except BLAMED:
            conn.execute("ROLLBACK TO item")
            left_out.append(one)
    return made
