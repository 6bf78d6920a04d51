"""The `content` table: one row for each content in the cache.

The cache writes its rows in batches some time after the fact (contents.py); the journal composes
`record_dirty` and `mark_clean` into its own transactions, so that the bytes to send and the op that
sends them are committed together.

Rule: what the cache saves in batches never touches the row of a dirty content, except to say that it
was verified; only the journal's transactions begin and end being dirty.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from cmsfs import sqlite
from cmsfs.cache import bitmap
from cmsfs.runtime import clock


@dataclass(frozen=True, slots=True)
class ContentRow:
    """One row; a `bits` of None says that every block is present."""

    sha1: str
    size: int
    bits: bytes | None
    verified: bool
    dirty: bool
    pinned: bool
    used_at: int


_COLUMNS = "sha1, size, bitmap, verified, dirty, pinned, used_at"

_SAVE = """
    INSERT INTO content (sha1, size, bitmap, verified, dirty, pinned, used_at) VALUES (?, ?, ?, ?, 0, 0, ?)
    ON CONFLICT (sha1) DO UPDATE SET size = excluded.size, bitmap = excluded.bitmap,
        verified = excluded.verified, used_at = excluded.used_at
    WHERE dirty = 0
"""
_SAVE_DIRTY = "UPDATE content SET verified = ?, used_at = ? WHERE sha1 = ? AND dirty = 1"
_RECORD_DIRTY = """
    INSERT INTO content (sha1, size, bitmap, verified, dirty, pinned, used_at) VALUES (?, ?, NULL, 1, 1, 0, ?)
    ON CONFLICT (sha1) DO UPDATE SET size = excluded.size, bitmap = NULL, verified = 1, dirty = 1,
        used_at = excluded.used_at
"""
_PIN = """
    INSERT INTO content (sha1, size, bitmap, verified, dirty, pinned, used_at) VALUES (?, ?, ?, ?, 0, 1, ?)
    ON CONFLICT (sha1) DO UPDATE SET pinned = 1
"""


def _saved(row: sqlite.Row) -> ContentRow:
    return ContentRow(row[0], row[1], row[2], bool(row[3]), bool(row[4]), bool(row[5]), row[6])


def find(db: sqlite.Database, sha1: str) -> ContentRow | None:
    row = db.row(f"SELECT {_COLUMNS} FROM content WHERE sha1 = ?", sha1)
    return None if row is None else _saved(row)


def everything(conn: sqlite.Connection) -> list[ContentRow]:
    """Every row; for recovery."""
    return [_saved(row) for row in conn.execute(f"SELECT {_COLUMNS} FROM content")]


def recorded(conn: sqlite.Connection, sha1s: Iterable[str]) -> set[str]:
    """Return those of these contents that have a row."""
    sql = "SELECT sha1 FROM content WHERE sha1 IN (SELECT value FROM json_each(?))"
    return {row["sha1"] for row in conn.execute(sql, (json.dumps(list(sha1s)),))}


def unverified(db: sqlite.Database, limit: int, *, after: str) -> list[str]:
    """Complete contents that are not known to match their SHA-1, in the order of their SHA-1."""
    sql = "SELECT sha1 FROM content WHERE sha1 > ? AND verified = 0 AND bitmap IS NULL ORDER BY sha1 LIMIT ?"
    return [row[0] for row in db.rows(sql, after, limit)]


def evictable(db: sqlite.Database, limit: int, *, after: tuple[int, str]) -> list[ContentRow]:
    """Contents that are neither dirty nor pinned nor below a draft, the longest unused first, from a
    (used_at, sha1) on."""
    sql = f"""
        SELECT {_COLUMNS} FROM content WHERE used_at >= ? AND (used_at, sha1) > (?, ?)
        AND dirty = 0 AND pinned = 0
        AND NOT EXISTS (SELECT 1 FROM draft WHERE base_sha1 = content.sha1)
        ORDER BY used_at, sha1 LIMIT ?
    """
    return [_saved(row) for row in db.rows(sql, after[0], *after, limit)]


def is_base(db: sqlite.Database, sha1: str) -> bool:
    """Whether a draft lies over this content, whose bytes go to the service with it."""
    return db.row("SELECT 1 FROM draft WHERE base_sha1 = ?", sha1) is not None


def pinned_bytes(conn: sqlite.Connection) -> int:
    """What pinned contents, and those below drafts, take up in the cache."""
    found = conn.execute(
        "SELECT bitmap, size FROM content WHERE dirty = 0"
        " AND (pinned = 1 OR sha1 IN (SELECT base_sha1 FROM draft WHERE base_sha1 IS NOT NULL))"
    )
    return sum(bitmap.present_bytes(row[0], row[1]) for row in found)


def save(conn: sqlite.Connection, saved: Iterable[ContentRow]) -> None:
    """Write rows back; `pinned` is not the cache's to change and stays as it is."""
    for row in saved:
        if row.dirty:
            conn.execute(_SAVE_DIRTY, (row.verified, row.used_at, row.sha1))
        else:
            conn.execute(_SAVE, (row.sha1, row.size, row.bits, row.verified, row.used_at))


def remove(conn: sqlite.Connection, sha1s: Iterable[str]) -> None:
    """Nothing of these is here any more.  A pinned content keeps its row, since it is still wanted."""
    for sha1 in sha1s:
        conn.execute("DELETE FROM content WHERE sha1 = ? AND dirty = 0 AND pinned = 0", (sha1,))
        left = conn.execute("SELECT size FROM content WHERE sha1 = ? AND dirty = 0", (sha1,)).fetchone()
        if left is not None:
            sql = "UPDATE content SET bitmap = ?, verified = 0 WHERE sha1 = ?"
            conn.execute(sql, (bytes(bitmap.empty(left[0])), sha1))


def record_dirty(conn: sqlite.Connection, sha1: str, size: int) -> None:
    """The service does not have this content; its file is in the drafts folder already."""
    conn.execute(_RECORD_DIRTY, (sha1, size, int(clock.time())))


def restore_dirty(conn: sqlite.Connection, sha1: str, size: int) -> None:
    """The service does not have this content, whose file was found again and has not been checked."""
    conn.execute(
        "INSERT INTO content(sha1, size, bitmap, verified, dirty, pinned, used_at)"
        " VALUES (?, ?, NULL, 0, 1, 0, 0)"
        " ON CONFLICT(sha1) DO UPDATE SET dirty = 1, bitmap = NULL",
        (sha1, size),
    )


def expect(conn: sqlite.Connection, sha1: str, size: int) -> None:
    """This content is about to be adopted, and has no other name: should the row of that never come, a start
    takes the file for one of the cache."""
    bits = bytes(bitmap.empty(size))
    conn.execute(
        "INSERT OR IGNORE INTO content (sha1, size, bitmap, verified, dirty, pinned, used_at)"
        " VALUES (?, ?, ?, 0, 0, 0, ?)",
        (sha1, size, bits, int(clock.time())),
    )


def mark_clean(conn: sqlite.Connection, sha1: str) -> None:
    """The service has this content now, or nobody wants to send it any more.

    The caller has made sure that no other op still has to send it.
    """
    conn.execute("UPDATE content SET dirty = 0, used_at = ? WHERE sha1 = ?", (int(clock.time()), sha1))


def pin(conn: sqlite.Connection, sha1: str, size: int) -> None:
    """Keep this content from eviction, whether it is here already or still to come."""
    bits = bytes(bitmap.empty(size)) if size else None
    conn.execute(_PIN, (sha1, size, bits, not size, int(clock.time())))


def unpin(conn: sqlite.Connection, sha1: str) -> None:
    """Let this content be evicted again."""
    conn.execute("UPDATE content SET pinned = 0 WHERE sha1 = ?", (sha1,))
