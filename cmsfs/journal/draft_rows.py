"""The `draft` table: every change of its rows, and the encoding of extents.

What is in a draft's file is `cmsfs.journal.draft`.
"""

from sqlite3 import Connection


def insert(conn: Connection, *, base_sha1: str | None, base_total: int) -> int:
    """A new draft over a content of this size, of which all shows; its id."""
    cursor = conn.execute(
        "INSERT INTO draft(base_sha1, base_total, base_size, size) VALUES (?, ?, ?, ?)",
        (base_sha1, base_total, base_total, base_total),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def put(
    conn: Connection,
    draft_id: int,
    *,
    base_sha1: str | None,
    base_total: int,
    base_size: int,
    size: int,
    extents: str,
) -> None:
    """A draft of this id that is so, whatever was there."""
    conn.execute(
        "INSERT OR REPLACE INTO draft(id, base_sha1, base_total, base_size, size, extents)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (draft_id, base_sha1, base_total, base_size, size, extents),
    )


def set_held(
    conn: Connection,
    draft_id: int,
    *,
    extents: str,
    size: int,
    base_size: int | None = None,
    data: bytes | None = None,
) -> None:
    """What the draft file holds, how large it all is, and from where on the base is cut (None: as it was).

    `data`: all bytes up to the end of the last extent; None: they are in the file alone.
    """
    conn.execute(
        "UPDATE draft SET base_size = coalesce(?, base_size), size = ?, extents = ?, data = ? WHERE id = ?",
        (base_size, size, extents, data, draft_id),
    )


def delete(conn: Connection, draft_id: int) -> None:
    """The draft is no more."""
    conn.execute("DELETE FROM draft WHERE id = ?", (draft_id,))
