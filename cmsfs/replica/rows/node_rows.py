"""The `node` table: changes of columns other than a node's folder, for the layers above.

Places are changed by `cmsfs.replica.tree`; remote updates are applied by `cmsfs.replica.merge.apply_remote`.
"""

from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Ino


def rename(conn: Connection, ino: Ino, name: str) -> None:
    """Give a node another name in the folder that it is in; the name must be free.

    Cheaper than `tree.place`: where the folder is set, to the same one too, SQLite writes all indexes anew.
    """
    key = wire_names.name_key(name)
    conn.execute("UPDATE node SET name = ?, name_key = ? WHERE ino = ?", (name, key, ino))


# ---- content -----------------------------------------------------------------------------------


def set_content(conn: Connection, ino: Ino, *, sha1: str | None, size: int) -> None:
    """Set the contents that a node shows if it has no draft."""
    conn.execute("UPDATE node SET sha1 = ?, size = ? WHERE ino = ?", (sha1, size, ino))


def set_size(conn: Connection, ino: Ino, size: int) -> None:
    """Set the node's size."""
    conn.execute("UPDATE node SET size = ? WHERE ino = ?", (size, ino))


def forget_content(conn: Connection, ino: Ino) -> None:
    """Remove the node's contents."""
    conn.execute("UPDATE node SET sha1 = NULL WHERE ino = ?", (ino,))


def show_base(conn: Connection, ino: Ino, *, size: int) -> None:
    """Reset the node's contents to the base version, with this size."""
    conn.execute("UPDATE node SET sha1 = base_sha1, size = ? WHERE ino = ?", (size, ino))


def go_back_to_base(conn: Connection, ino: Ino) -> None:
    """Reset a node without a draft to its base version, so that the next remote state counts as an update."""
    conn.execute("UPDATE node SET sha1 = base_sha1, etag = NULL WHERE ino = ? AND draft IS NULL", (ino,))


def take_as_sent(conn: Connection, ino: Ino) -> None:
    """Make the node's contents its base, so that they are not uploaded."""
    conn.execute("UPDATE node SET base_sha1 = sha1 WHERE ino = ?", (ino,))


def set_draft(
    conn: Connection, ino: Ino, draft: int, *, size: int | None = None, mtime_ns: int | None = None
) -> None:
    """Set the node's draft, and its size and mtime unless None."""
    conn.execute(
        "UPDATE node SET draft = ?1, size = coalesce(?2, size), mtime_ns = coalesce(?3, mtime_ns),"
        " ctime_ns = max(ctime_ns, coalesce(?3, 0)) WHERE ino = ?4",
        (draft, size, mtime_ns, ino),
    )


def note_written(conn: Connection, ino: Ino, draft: int, *, size: int, mtime_ns: int | None) -> None:
    """Set size and mtime (None: unchanged) after a write, if this is still the node's draft."""
    conn.execute(
        "UPDATE node SET size = ?1, mtime_ns = coalesce(?2, mtime_ns),"
        " ctime_ns = max(ctime_ns, coalesce(?2, 0)) WHERE ino = ?3 AND draft = ?4",
        (size, mtime_ns, ino, draft),
    )


def replace_draft(conn: Connection, ino: Ino, *, sha1: str, size: int) -> None:
    """Replace the node's draft by these sealed contents."""
    conn.execute("UPDATE node SET sha1 = ?, size = ?, draft = NULL WHERE ino = ?", (sha1, size, ino))


def forget_draft(conn: Connection, draft: int) -> None:
    """Remove this draft from its node."""
    conn.execute("UPDATE node SET draft = NULL WHERE draft = ?", (draft,))


# ---- mode, times, local-only items ---------------------------------------------------------


def set_modified(conn: Connection, ino: Ino, mtime_ns: int) -> None:
    """Set the node's mtime, and its ctime if that is earlier."""
    conn.execute(
        "UPDATE node SET mtime_ns = ?2, ctime_ns = max(ctime_ns, ?2) WHERE ino = ?1", (ino, mtime_ns)
    )


def set_attributes(
    conn: Connection,
    ino: Ino,
    *,
    mode: int | None,
    atime_ns: int | None,
    mtime_ns: int | None,
    ctime_ns: int,
) -> None:
    """Set the node's permission bits and times; None leaves them unchanged."""
    conn.execute(
        "UPDATE node SET mode = coalesce(?, mode), atime_ns = coalesce(?, atime_ns),"
        " mtime_ns = coalesce(?, mtime_ns), ctime_ns = ? WHERE ino = ?",
        (mode, atime_ns, mtime_ns, ctime_ns, ino),
    )


def set_local(conn: Connection, ino: Ino, local: int) -> None:
    """Set the column `local`: whether the node is on this machine only."""
    conn.execute("UPDATE node SET local = ? WHERE ino = ?", (local, ino))


# ---- the item at the service -------------------------------------------------------------------


def set_item(
    conn: Connection,
    ino: Ino,
    *,
    remote_id: str,
    etag: str | None,
    version: str | None,
    base_sha1: str | None,
    base_parent: str | None,
    base_name: str | None,
    sequence: int,
) -> None:
    """Set the node's item, its version, and its place at the service."""
    conn.execute(
        "UPDATE node SET remote_id = ?, etag = ?, version = ?, base_sha1 = ?, base_parent = ?,"
        " base_name = ?, base_key = ?, sequence = ? WHERE ino = ?",
        (
            remote_id,
            etag,
            version,
            base_sha1,
            base_parent,
            base_name,
            wire_names.name_key(base_name or ""),
            sequence,
            ino,
        ),
    )


def set_folder_item(
    conn: Connection, ino: Ino, *, remote_id: str, base_parent: str | None, name: str
) -> None:
    """Set the node's item to a folder of which only the place is known."""
    conn.execute(
        "UPDATE node SET remote_id = ?, base_parent = ?, base_name = ?, base_key = name_key WHERE ino = ?",
        (remote_id, base_parent, name, ino),
    )


def hand_over_item(conn: Connection, old: Ino, new: Ino) -> None:
    """Move the item of `old`, with its base columns, to `new`."""
    row = conn.execute(
        "SELECT kind, remote_id, etag, version, base_sha1, base_parent, base_name, base_key, sequence, item"
        " FROM node WHERE ino = ?",
        (old,),
    ).fetchone()
    conn.execute(
        "UPDATE node SET remote_id = NULL, etag = NULL, version = NULL, base_sha1 = NULL, base_parent = NULL,"
        " base_name = NULL, base_key = NULL, sequence = 0, item = NULL WHERE ino = ?",
        (old,),
    )
    conn.execute(
        "UPDATE node SET kind = ?, remote_id = ?, etag = ?, version = ?, base_sha1 = ?, base_parent = ?,"
        " base_name = ?, base_key = ?, sequence = ?, item = ?, local = 0 WHERE ino = ?",
        (*row, new),
    )


def leave_base_folder(conn: Connection, ino: Ino) -> None:
    """Clear the item's folder at the service; its sequence stays, to recognize older updates."""
    conn.execute("UPDATE node SET base_parent = NULL WHERE ino = ?", (ino,))


# ---- the two fixed rows -------------------------------------------------------------


def insert_fixed(conn: Connection, ino: Ino, *, name: str, mode: int, remote_id: str | None) -> None:
    """Insert the row of the root or of the trash into a new database."""
    conn.execute(
        "INSERT INTO node(ino, parent, name, name_key, kind, mtime_ns, ctime_ns, mode, remote_id)"
        " VALUES (?, NULL, ?, ?, 'folder', 0, 0, ?, ?)",
        (ino, name, name, mode, remote_id),
    )
