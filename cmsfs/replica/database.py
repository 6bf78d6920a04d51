"""Opens replica.db: schema, format version, and upgrades from older formats.

Rule: an upgrade keeps the journal and the drafts; a change of schema.sql requires a higher `VERSION` and an
`upgrade_N.sql`, which upgrades from version N to the next.
"""

import functools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path

from cmsfs import sqlite
from cmsfs.replica.inodes import Inodes

VERSION = 11

# A commit appends whole pages to the log, of which it has changed a row each: with pages of 4 KiB the log of
# a temporary file (made, fsynced, renamed, removed) is 118 KiB long, with these 64.  Most rows have some
# hundred bytes, so that smaller pages would hold too few.
PAGE_BYTES = 2048


@functools.cache
def schema() -> str:
    """Return the SQL script that creates an empty replica of this version."""
    return (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")


@asynccontextmanager
async def open_replica(path: Path) -> AsyncIterator[sqlite.Database]:
    """Open the local state of an account; create it if there is none.  Raises `UserError`."""
    async with sqlite.open_database(
        path, schema(), version=VERSION, upgrades=_upgrades(), page_bytes=PAGE_BYTES
    ) as db:
        Inodes().attach(db)
        yield db


@functools.cache
def _upgrades() -> Mapping[int, str]:
    folder = resources.files("cmsfs.replica")
    return {
        number: (folder / f"upgrade_{number}.sql").read_text(encoding="utf-8") for number in range(1, VERSION)
    }
