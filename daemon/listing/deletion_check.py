"""Confirms with the service that items missing from a listing are really deleted.

An empty or incomplete listing proves nothing.  The topmost missing items are requested one by one: an item
that the service returns is applied; one that it reports as trashed, or with its own error as not found, is
removed with everything missing below it.  If many items would be removed, a sample is requested first: if one
of it exists, the listing is ignored; if all are gone, the user is asked (`merge.mass_deletions`).

Rule: nothing is removed here unless the service was asked about it by its ID.
"""

import functools
import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.ipc import attention
from cmsfs.models import wire_names
from cmsfs.models.content import entries, items
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import listing_diff, mass_deletions
from cmsfs.replica.nodes import Ino, ItemKey, Node, NodeKind
from cmsfs.sqlite import Database
from daemon.core import concurrency, item_search, root_check
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates

log = logging.getLogger(__name__)

ASKED_AT_ONCE = 8

# Size of the sample requested before the user is asked about many missing items.
SAMPLE = 24

_IN_TRASH = ("trashed", "deleted")

# How many of them are named to the user.
NAMED = 20

# Number of items removed in one transaction.
CHUNK = 500

Item = items.Item | entries.Entry


async def fetch_item(
    client: Client, health: Health, kind: NodeKind, item_id: str, *, db: Database | None = None
) -> Item | None:
    """Return the item as it is now; None: it is gone, in the trash, or not accessible any more.

    With `db`: an item of a drive whose root can disappear, and a folder with many local items below it, are
    requested twice, with a check of the root in between, before they count as gone (the folder: without being
    in the trash).  Raises `RemoteError`.
    """
    try:
        return await _get(client, health, kind, item_id, db)
    except (errors.NotFound, errors.Forbidden, errors.Gone) as error:
        if db is None:
            return None
        # The root may be back since the service answered.
        await root_check.check(db, client, health)
        if tree.root_id(db) == wire_names.ROOT_ID:
            is_certain = not isinstance(error, errors.NotFound) or error.code in _IN_TRASH
            if is_certain or not await _has_much(db, kind, item_id):
                return None
            await _check_root_folder(client, health)
    try:
        return await _get(client, health, kind, item_id, db)
    except (errors.NotFound, errors.Forbidden, errors.Gone):
        return None


async def _get(client: Client, health: Health, kind: NodeKind, item_id: str, db: Database | None) -> Item:
    with health.request("poll"):
        return await item_search.look_at(db, client, kind, item_id)


async def _check_root_folder(client: Client, health: Health) -> None:
    try:
        with health.request("poll"):
            await item_search.check_folder(client, wire_names.ROOT_ID)
    except errors.NotFound as error:
        said = "the service does not find the drive's root folder, either"
        raise errors.ServerError(404, error.code, said) from error


async def _has_much(db: Database, kind: NodeKind, item_id: str) -> bool:
    def look(conn: Connection) -> bool:
        node = tree.remote_at(conn, kind, item_id)
        return node is not None and mass_deletions.is_mass_deletion(conn, len(tree.subtree(conn, node.ino)))

    return await db.query(look)


class DeletionCheck:
    """Removes nodes that a listing did not contain, once the service confirms that they are deleted."""

    def __init__(self, db: Database, client: Client, remote_updates: RemoteUpdates, health: Health) -> None:
        self._db = db
        self._client = client
        self._remote_updates = remote_updates
        self._health = health

    async def remove(self, unseen: Sequence[Ino], generation: int) -> int:
        """Remove those that are gone; return the number of changes.  Raises `RemoteError`.

        `unseen`: nodes missing from a complete listing with this generation; their contents at the service
        are missing, too, if they are among them.
        """
        if not unseen:
            return 0
        tops, count, much = await self._db.query(lambda conn: _tops(conn, unseen, generation))
        if not tops:
            return 0
        if not much:
            return await self._go(tops, unseen, generation)
        sample = tops[:: max(1, len(tops) // SAMPLE)]
        places = await self._db.query(lambda conn: {ino: tree.get(conn, ino).base_parent for ino in sample})
        living, gone = await self._sorted(sample)
        changes = await self._remote_updates.apply(living, generation=generation)
        found = [tree.find_remote(self._db, NodeKind(item.type), item.id) for item in living]
        there = [node for node in found if node is not None]
        moved = [node.ino for node in there if node.base_parent != places.get(node.ino)]
        if living and len(sample) == len(tops) and (gone or len(moved) == len(living)):
            # Some were moved or restored meanwhile, which says nothing about the others.
            below = await self._db.query(lambda conn: _with_below(conn, moved, unseen))
            left = set(unseen) - {node.ino for node in there} - set(below)
            return changes + await self.remove(sorted(left), generation)
        if living:
            log.warning("a listing omitted %d items that the service still has; nothing was removed", count)
        elif await self._db.write(lambda conn: mass_deletions.ask(conn, tops)):
            log.warning(
                "%d items are missing at the service; nothing is removed without confirmation: see `cmsfs "
                "missing`",
                count,
            )
        return changes

    async def _go(self, tops: Sequence[Ino], unseen: Sequence[Ino], generation: int) -> int:
        living, gone = await self._sorted(tops)
        # Items applied here count as seen by this comparison.
        changes = await self._remote_updates.apply(living, generation=generation)

        def txn(conn: Connection) -> list[Change]:
            return listing_diff.remove(conn, _with_below(conn, gone, unseen), generation)

        if gone:
            made = await self._db.write(txn)
            self._remote_updates.publish(made)
            changes += len(made)
        return changes

    async def remove_unplaced(self) -> None:
        """Remove what was listed below folders that are not on the drive, as shared ones that were only
        offered, if these are gone.  Nobody has seen it, so nobody is asked.  Raises `RemoteError`."""
        generation = await self._db.write(kv_store.next_generation)
        living, gone = await self._sorted(await self._db.query(listing_diff.unplaced_folders))
        await self._remote_updates.apply(living)

        def txn(conn: Connection) -> list[Change]:
            below = [each for ino in gone for each in tree.subtree(conn, ino)]
            return listing_diff.remove(conn, below, generation)

        if gone:
            self._remote_updates.publish(await self._db.write(txn))

    async def _sorted(self, inos: Iterable[Ino]) -> tuple[list[Item], list[Ino]]:
        """Return those that the service has, as they are now, and those that it has not."""
        living: list[Item] = []
        gone: list[Ino] = []

        async def ask(ino: Ino) -> None:
            node = tree.find(self._db, ino)
            if node is None or node.remote_id is None:
                return
            look = functools.partial(self._look, node, node.remote_id)
            try:
                item = await root_check.ask(self._db, self._client, self._health, look)
            except errors.NotShown:
                return  # not confirmed as gone
            if item is None:
                gone.append(ino)
            else:
                living.append(item)

        await concurrency.for_each(list(inos), ask, tasks=ASKED_AT_ONCE)
        if gone:
            await root_check.check(self._db, self._client, self._health)
        return living, gone

    async def _look(self, node: Node, item_id: str) -> Item | None:
        if Ability.ITEMS not in self._client.offers.lacking:
            return await fetch_item(self._client, self._health, node.kind, item_id)
        try:
            return await item_search.find(self._db, self._client, node.kind, item_id)
        except errors.NotFound:
            return None
        except errors.NotShown:
            # Found neither in the listing, nor by a search for it, nor in the trash.
            if not item_search.has_left_the_index(self._db, node):
                raise
            return None

    async def reconsider(self, generation: int) -> None:
        """After a full comparison with this generation: withdraw the question about items that it has
        shown."""

        def txn(conn: Connection) -> None:
            question = mass_deletions.at(conn)
            if question is None:
                return
            still = _unseen(conn, question.tops, generation)
            if not still:
                kv_store.drop(conn, kv_store.MISSING)
            elif len(still) < len(question.tops):
                mass_deletions.put(conn, question.model_copy(update={"tops": still}))

        await self._db.write(txn)

    async def look_at_disputed(self) -> int:
        """Restore items that listings showed although they were reported deleted, if the service has them, as
        after a restore of the service from a backup; return the number of changes.  Raises `RemoteError`."""
        there: list[ItemKey] = []
        living: list[Item] = []

        async def ask(key: ItemKey) -> None:
            with suppress(errors.NotShown):
                if (item := await fetch_item(self._client, self._health, *key)) is not None:
                    there.append(key)
                    living.append(item)

        await concurrency.for_each(self._remote_updates.disputed(), ask, tasks=ASKED_AT_ONCE)
        if there:
            await self._db.write(lambda conn: self._remote_updates.are_there(conn, there))
        return await self._remote_updates.apply(living)

    # ---- decisions of the user ----

    def pending(self) -> attention.Missing | None:
        """Return what the user has to decide."""
        if (question := mass_deletions.pending_question(self._db)) is None:
            return None
        return attention.Missing(
            items=question.count,
            asked=datetime.fromtimestamp(question.asked_at, UTC),
            paths=sorted(tree.path(self._db, ino) for ino in question.tops[:NAMED]),
        )

    async def confirm(self) -> int:
        """Remove the missing items that are still gone; return how many.  Raises `RemoteError`."""
        question = mass_deletions.pending_question(self._db)
        if question is None:
            return 0
        generation = await self._db.write(kv_store.next_generation)
        living, gone = await self._sorted(question.tops)
        await self._remote_updates.apply(living)
        removed = 0
        for start in range(0, len(gone), CHUNK):
            part = gone[start : start + CHUNK]

            def txn(conn: Connection, part: list[Ino] = part) -> list[Change]:
                below = {ino for top in part for ino in tree.subtree(conn, top)}
                return listing_diff.remove(conn, _unseen(conn, below, generation), generation)

            changes = await self._db.write(txn)
            self._remote_updates.publish(changes)
            removed += len(changes)
        await self._db.write(lambda conn: kv_store.drop(conn, kv_store.MISSING))
        log.info("removed the items missing at the service, as the user confirmed: %d changes", removed)
        return removed

    async def reject(self) -> bool:
        """Keep all missing items; False if there was no question."""
        return await self._db.write(mass_deletions.reject)


def _unseen(conn: Connection, inos: Iterable[Ino], generation: int) -> list[Ino]:
    sql = (
        "SELECT n.ino FROM json_each(?) AS j CROSS JOIN node AS n ON n.ino = j.value"
        " WHERE n.seen < ? AND n.remote_id IS NOT NULL AND n.base_parent IS NOT NULL AND n.ino > 2"
    )
    return [row[0] for row in conn.execute(sql, (json.dumps(list(inos)), generation)).fetchall()]


def _tops(conn: Connection, unseen: Sequence[Ino], generation: int) -> tuple[list[Ino], int, bool]:
    """Return the topmost of these nodes at the service, the number of nodes, and whether that is many."""
    inos = _unseen(conn, unseen, generation)
    wanted = json.dumps(inos)
    sql = (
        "SELECT n.ino FROM json_each(?1) AS j CROSS JOIN node AS n ON n.ino = j.value"
        " LEFT JOIN node AS p ON p.kind = 'folder' AND p.remote_id = n.base_parent"
        " WHERE p.ino IS NULL OR p.ino NOT IN (SELECT value FROM json_each(?1))"
    )
    tops = [row[0] for row in conn.execute(sql, (wanted,)).fetchall()]
    return tops, len(inos), mass_deletions.is_mass_deletion(conn, len(inos))


def _with_below(conn: Connection, tops: Iterable[Ino], unseen: Sequence[Ino]) -> list[Ino]:
    """Return these nodes and those of `unseen` that were below them at the service."""
    among = set(unseen)
    found: list[Ino] = []
    waiting = list(tops)
    while waiting:
        ino = waiting.pop()
        found.append(ino)
        rows = conn.execute(
            "SELECT n.ino FROM node AS p JOIN node AS n ON n.base_parent = p.remote_id"
            " WHERE p.ino = ? AND p.kind = 'folder' AND n.remote_id IS NOT NULL",
            (ino,),
        ).fetchall()
        waiting += [row[0] for row in rows if row[0] in among]
    return found
