"""Keeps the manifest of the drafts folder up to date, and writes it at shutdown.

It is written some seconds after a change, and never more often than it costs next to nothing.
"""

import logging
from pathlib import Path

import trio

from cmsfs.journal import manifest
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database

log = logging.getLogger(__name__)

# A manifest that is older than this may miss what was written since; the database has it all.
REST_SECONDS = 5.0

# With many files waiting, writing all their names takes its time: at most this part of a processor.
SHARE = 0.02


async def run(db: Database, drafts: Path, commit: GroupCommit, *, rest_seconds: float = REST_SECONDS) -> None:
    """Write it after changes, for ever."""
    written_at = commit.noted_at
    while True:
        await commit.noted_after(written_at)
        await trio.sleep(rest_seconds)
        written_at = began = clock.monotonic()
        await write(db, drafts)
        await trio.sleep((clock.monotonic() - began) / SHARE)


async def write(db: Database, drafts: Path) -> None:
    """Write it now.  A disk that has no room for it is not worth a word: it has troubles enough."""
    found = await db.query(manifest.collect)
    try:
        await threads.run_sync(manifest.write, drafts, found)
    except OSError as error:
        log.info("the manifest of pending uploads cannot be written: %s", error)
