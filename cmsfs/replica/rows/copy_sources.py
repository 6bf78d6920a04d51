"""The sources of files that the service is to create by copying: versions of items there.

Stored in the key-value table by the inode of the copy; a file that was written to since is no longer a copy.
"""

import json
from sqlite3 import Connection
from typing import NamedTuple

from cmsfs.replica import kv_store
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database

_KEY = "copy_of "

# Whether the user asked the service for a copy, by which the row `n` of `node` gets its contents.
IS_COPY = (
    f"EXISTS (SELECT 1 FROM cursor k WHERE k.key = '{_KEY}' || n.ino"
    "  AND json_extract(k.value, '$[2]') = n.sha1 AND json_extract(k.value, '$[3]'))"
)


class CopySource(NamedTuple):
    """A version of a file at the service, and the SHA-1 of its contents.

    `is_asked`: the user requested a copy of the item with everything attached to it; otherwise a program has
    copied its contents.
    """

    item: str
    version: str | None
    sha1: str
    is_asked: bool


def note(conn: Connection, ino: Ino, source: CopySource) -> None:
    """Record the source of a file."""
    kv_store.put(conn, f"{_KEY}{ino}", json.dumps(source))


def find(db: Database, ino: Ino) -> CopySource | None:
    """Return the source of a file, if it is a copy."""
    text = kv_store.get(db, f"{_KEY}{ino}")
    return CopySource(*json.loads(text)) if text is not None else None


def forget(conn: Connection, ino: Ino) -> None:
    """Delete the source of a file, because the service has created the copy."""
    kv_store.drop(conn, f"{_KEY}{ino}")


def forget_unused(conn: Connection) -> None:
    """Delete the sources of files without a pending upload."""
    rows = conn.execute(
        "SELECT key FROM cursor WHERE substr(key, 1, length(?1)) = ?1 AND NOT EXISTS (SELECT 1 FROM op"
        "  WHERE op.kind = 'upload' AND op.ino = CAST(substr(key, length(?1) + 1) AS INTEGER))",
        (_KEY,),
    )
    for row in rows.fetchall():
        kv_store.drop(conn, row["key"])
