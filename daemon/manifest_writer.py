"""Keeps the manifest of the drafts folder and the files of small drafts up to date, for the case that the
database is lost; also at shutdown.

It is written some seconds after a change, not while programs change many things, and never more often than it
costs next to nothing.
"""

import logging

import trio

from cmsfs.journal import manifest
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import PAUSE_SECONDS, GroupCommit
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database

log = logging.getLogger(__name__)

# A manifest that is older than this may miss what was written since; the database has it all.
REST_SECONDS = 5.0

# With many files waiting, writing all their names takes its time: at most this part of a processor.
SHARE = 0.02


async def run(
    db: Database, drafts: Drafts, commit: GroupCommit, *, rest_seconds: float = REST_SECONDS
) -> None:
    """Write it after changes, for ever."""
    written_at = commit.noted_at
    while True:
        await commit.noted_after(written_at)
        await trio.sleep(rest_seconds)
        while commit.are_programs_busy:  # noqa: ASYNC110  (a pause tells nobody)
            await trio.sleep(PAUSE_SECONDS)
        written_at = began = clock.monotonic()
        await write(db, drafts)
        await trio.sleep((clock.monotonic() - began) / SHARE)


async def write(db: Database, drafts: Drafts) -> None:
    """Write it now.  A disk that has no room for it is not worth a word: it has troubles enough."""
    await drafts.make_files()
    found = await db.query(manifest.collect)
    try:
        await threads.run_sync(manifest.write, drafts.root, found)
    except OSError as error:
        log.info("the manifest of pending uploads cannot be written: %s", error)
