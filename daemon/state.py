"""What is on this disk of one drive, opened together and recovered from however the last run ended."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from cmsfs import config, sqlite
from cmsfs.cache.blocks import Blocks
from cmsfs.journal import manifest, recovery, restoring
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import cursor, database, tree
from cmsfs.replica.nodes import ROOT
from daemon import manifest_keeper

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """What is on this disk."""

    db: sqlite.Database
    blocks: Blocks
    drafts: Drafts
    check_cache: bool

    @property
    def is_known(self) -> bool:
        """Whether there is a tree to show without asking anybody."""
        marks = (cursor.CHANGES_SINCE, cursor.EVENTS_POSITION)
        return tree.is_listed(self.db, ROOT) or any(cursor.get(self.db, mark) for mark in marks)


@asynccontextmanager
async def open_state(settings: config.Settings) -> AsyncIterator[State]:
    """The local state, recovered from however the last run ended.  Raises `UserError`."""
    places = settings.paths
    is_lost = not places.replica_db.exists()
    async with database.open_replica(places.replica_db) as db:
        if is_lost:
            await _restore(db, places)
        last = await recovery.begin(db)
        drafts = Drafts(db, places.drafts)
        blocks = Blocks(
            *(db, places.blocks, places.drafts),
            limit_bytes=settings.cache_bytes,
            keep_free_bytes=settings.keep_free_bytes,
        )
        due = await recovery.recover(db, drafts, places.recovered)
        await blocks.recover(clean_shutdown=last.clean, same_boot=last.same_boot)
        log.info("%d changes are to be sent; the last run ended %s", due, "well" if last.clean else "badly")
        try:
            yield State(db, blocks, drafts, check_cache=not (last.clean or last.same_boot))
        finally:
            with trio.CancelScope(shield=True):
                await manifest_keeper.write(db, places.drafts)
                await blocks.aclose()
                await recovery.end(db)


async def _restore(db: sqlite.Database, places: config.Paths) -> None:
    """The database is new: what lies in the drafts folder all the same was written before it was lost."""
    known = await trio.to_thread.run_sync(manifest.read, places.drafts)
    found = await db.write(lambda conn: restoring.restore(conn, places.drafts, known), durable=True)
    if found:
        log.warning(
            "the database of this drive was lost; %d files that were never uploaded are back in their places",
            len(found),
        )
