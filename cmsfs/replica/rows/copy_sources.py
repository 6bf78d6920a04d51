"""What files are copies of that the service is still to make: versions of items there.

Rows of the table of single values, by the inode of the copy; one that was written to since is a copy no more.
"""

import json
from sqlite3 import Connection
from typing import NamedTuple

from cmsfs.replica import kv_store
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database

_KEY = "copy_of "


class CopySource(NamedTuple):
    """A version of a file at the service, and the SHA-1 of its bytes.

    `is_asked`: a person wants the file as it is there, with all that belongs to it; otherwise a program has
    copied its bytes.
    """

    item: str
    version: str | None
    sha1: str
    is_asked: bool


def note(conn: Connection, ino: Ino, source: CopySource) -> None:
    """The file is to be this at the service."""
    kv_store.put(conn, f"{_KEY}{ino}", json.dumps(source))


def find(db: Database, ino: Ino) -> CopySource | None:
    """What the file was made as a copy of."""
    text = kv_store.get(db, f"{_KEY}{ino}")
    return CopySource(*json.loads(text)) if text is not None else None


def forget(conn: Connection, ino: Ino) -> None:
    """The service has it."""
    kv_store.drop(conn, f"{_KEY}{ino}")


def forget_unused(conn: Connection) -> None:
    """Forget those of files that nothing is to be sent of any more."""
    rows = conn.execute(
        "SELECT key FROM cursor WHERE substr(key, 1, length(?1)) = ?1 AND NOT EXISTS (SELECT 1 FROM op"
        "  WHERE op.kind = 'upload' AND op.ino = CAST(substr(key, length(?1) + 1) AS INTEGER))",
        (_KEY,),
    )
    for row in rows.fetchall():
        kv_store.drop(conn, row["key"])
