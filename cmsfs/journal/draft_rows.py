"""The `draft` table: every change of its rows.  What a row says is a `Draft` once it is in memory."""

from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import node_rows


def insert(
    conn: Connection, ino: Ino | None, base: tuple[str, int] | None, *, cut_ns: int | None = None
) -> int:
    """The row of a new draft of `ino` over `base` (SHA-1, size), of which all shows; its id.

    `ino` is None of a file that is made in this transaction, with this draft; `cut_ns`: it is empty from this
    time on.  Hand the id to `Drafts.started` after the commit.
    """
    base_sha1, base_total = base or (None, 0)
    cursor = conn.execute(
        "INSERT INTO draft(base_sha1, base_total, base_size, size) VALUES (?, ?, ?, ?)",
        (base_sha1, base_total, base_total, base_total),
    )
    assert cursor.lastrowid is not None
    if ino is not None:
        size = None if cut_ns is None else 0
        node_rows.set_draft(conn, ino, cursor.lastrowid, size=size, mtime_ns=cut_ns)
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
    """Delete a draft's row."""
    conn.execute("DELETE FROM draft WHERE id = ?", (draft_id,))
