"""Periodic maintenance of the local state.

Rule: each piece may be interrupted anywhere and is simply done again.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs import logs
from cmsfs.cache.blocks import BlockCache
from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal import sealing
from cmsfs.replica import local_attributes
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import Node
from cmsfs.runtime import threads
from cmsfs.sqlite import Database
from cmsfs.vfs.tree.filesystem import Filesystem

log = logging.getLogger(__name__)

# What a killed process forgets of the blocks that it fetched; and how long uploads may overfill the cache.
FLUSH_SECONDS = 5.0

# Contents whose file was deleted before it was sent, or was found at the service: rare, and only space.
RELEASE_SECONDS = 600.0


# Leftovers are a month old when they go.
TIDY_SECONDS = 3600.0

FORGET_SECONDS = 86_400.0

LOG_SECONDS = 60.0


async def remove_leftovers(
    fs: Filesystem, hub: Hub, days: int, keep: Callable[[Node], Awaitable[bool]]
) -> None:
    """Remove what programs left on this machine only, for ever; nothing if `days` is 0.

    `keep` puts the bytes of a file somewhere else first.
    """
    while days:
        try:
            if changes := await fs.tidy(days=days, keep=keep):
                log.info(
                    "moved %d local-only files and folders, untouched for %d days, to the recovered files",
                    len(changes),
                    days,
                )
                hub.publish(changes)
        except Exception:
            log.exception("local-only files could not be cleaned up")
        await trio.sleep(TIDY_SECONDS)


async def forget(db: Database, days: int) -> None:
    """Forget what was kept of items that have not come back in so many days, for ever."""
    while True:
        try:
            await db.write(lambda conn: local_attributes.forget(conn, days=days))
        except Exception:
            log.exception("details of removed items could not be deleted")
        await trio.sleep(FORGET_SECONDS)


async def bound_log(path: Path) -> None:
    """Keep the log file within its bounds, for ever."""
    while True:
        await trio.sleep(LOG_SECONDS)
        try:
            logs.set_aside(path)
        except OSError as error:
            log.warning("the log file could not be set aside: %s", error.strerror)


async def run(db: Database, blocks: BlockCache, reserve: DiskReserve, check: bool) -> None:
    """Write the cache's rows, release what need not be kept, see that there is room to go on, for ever;
    `check` the cache first, which is called for after a power cut."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_flush, blocks, reserve)
        nursery.start_soon(_release, db, blocks)
        if check:
            nursery.start_soon(blocks.verify_all)


async def _flush(blocks: BlockCache, reserve: DiskReserve) -> None:
    while True:
        await trio.sleep(FLUSH_SECONDS)
        try:
            await blocks.flush()
            await blocks.trim()
            if not reserve.is_whole:
                await threads.run_sync(reserve.restore)
        except Exception:
            log.exception("the cache index could not be saved, or the cache not be trimmed")


async def _release(db: Database, blocks: BlockCache) -> None:
    while True:
        try:
            await blocks.settle_clean(*await db.write(_unneeded))
        except Exception:
            log.exception("local contents could not be released")
        await trio.sleep(RELEASE_SECONDS)


def _unneeded(conn: Connection) -> list[str]:
    """Dirty contents that no node has to send any more, marked as clean."""
    dirty = [row["sha1"] for row in conn.execute("SELECT sha1 FROM content WHERE dirty = 1")]
    return [sha1 for sha1 in dirty if sealing.release_content(conn, sha1)]
