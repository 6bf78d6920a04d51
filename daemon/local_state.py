"""Opens a drive's local state (database, cache, journal) and recovers it after the last run."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import trio

from cmsfs import config, database_files, errors, sqlite
from cmsfs.cache.blocks import BlockCache
from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal import draft_restore, manifest, recovery
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import database, kv_store, tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.runtime import threads
from daemon import manifest_writer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalState:
    """The open local state of one drive."""

    db: sqlite.Database
    blocks: BlockCache
    drafts: Drafts
    reserve: DiskReserve
    check_cache: bool

    @property
    def is_known(self) -> bool:
        """Whether there is a tree to show without asking anybody."""
        marks = (kv_store.CHANGES_SINCE, kv_store.EVENTS_POSITION)
        return tree.is_listed(self.db, ROOT) or any(kv_store.get(self.db, mark) for mark in marks)


@asynccontextmanager
async def open_state(settings: config.Settings, held: Collection[Ino] = ()) -> AsyncIterator[LocalState]:
    """The local state, recovered from however the last run ended; `held` inodes are open on the drive all the
    same.  Raises `UserError`."""
    places = settings.paths
    is_lost = not places.replica_db.exists()
    reserve = DiskReserve(places.state)
    # A database opens only where there is room for its log.
    reserve.make_room()
    async with AsyncExitStack() as stack:
        try:
            db = await stack.enter_async_context(database.open_replica(places.replica_db))
            db.make_room = reserve.make_room
            db.limit_log_size(reserve.nbytes // 4)
            db.has_much_room = reserve.is_roomy
            await db.checkpoint_log()
            state = await _recovered(db, settings, places, reserve, held, is_lost=is_lost)
            await threads.run_sync(reserve.restore)
        except (database_files.Unusable, sqlite.DamageFound) as error:
            raise _damaged(places, error) from error
        try:
            yield state
        finally:
            with trio.CancelScope(shield=True):
                await manifest_writer.write(db, state.drafts)
                state.drafts.close()
                await state.blocks.aclose()
                await recovery.end(db)


async def _recovered(
    db: sqlite.Database,
    settings: config.Settings,
    places: config.Paths,
    reserve: DiskReserve,
    held: Collection[Ino],
    *,
    is_lost: bool,
) -> LocalState:
    if is_lost:
        await _restore(db, places)
    last = await recovery.begin(db)
    drafts = Drafts(db, places.drafts)
    drafts.has_much_room = reserve.is_roomy
    blocks = BlockCache(
        db=db,
        root=places.blocks,
        dirty_root=places.drafts,
        limit_bytes=settings.cache_bytes,
        keep_free_bytes=_keep_free(settings, places, reserve),
    )
    due = await recovery.recover(db, drafts, places.recovered, held)
    found = await blocks.recover(drafts.bases(), clean_shutdown=last.clean, same_boot=last.same_boot)
    await recovery.note_recovered(db)
    if is_lost:
        for path in found.orphans:
            path.rename(places.recovered / path.name)
    log.info("%d pending changes; the last run ended %s", due, "well" if last.clean else "badly")
    return LocalState(db, blocks, drafts, reserve, check_cache=not (last.clean or last.same_boot))


def _keep_free(settings: config.Settings, places: config.Paths, reserve: DiskReserve) -> int:
    """What the cache leaves free; on the state's disk, at least what writers must leave free."""
    one_disk = places.blocks.stat().st_dev == places.state.stat().st_dev
    return max(settings.keep_free_bytes, reserve.nbytes + reserve.nbytes // 2 if one_disk else 0)


async def _restore(db: sqlite.Database, places: config.Paths) -> None:
    """The database is new: what lies in the drafts folder all the same was written before it was lost."""
    known = await threads.run_sync(manifest.read, places.drafts)
    found = await db.write(lambda conn: draft_restore.restore(conn, places.drafts, known), durable=True)
    if found:
        log.warning(
            "the local database was lost; restored %d files that were never uploaded",
            len(found),
        )


def _damaged(places: config.Paths, error: Exception) -> errors.UserError:
    log.error("the database cannot be read: %s", error)
    return errors.UserError(
        f"{places.replica_db} is damaged; `cmsfs fsck --repair` rebuilds it from readable data and "
        "restores files that were never uploaded."
    )
