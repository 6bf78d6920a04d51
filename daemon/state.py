"""What is on this disk of one drive, opened together and recovered from however the last run ended."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from cmsfs import config, sqlite
from cmsfs.cache.blocks import Blocks
from cmsfs.journal import recovery
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import cursor, database, tree
from cmsfs.replica.nodes import ROOT

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
    async with database.open_replica(places.replica_db) as db:
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
                await blocks.aclose()
                await recovery.end(db)
