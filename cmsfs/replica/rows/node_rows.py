"""The `node` table: changes of columns other than a node's place, for the layers above.

Places are `cmsfs.replica.tree`, and what the service says is `cmsfs.replica.merge.apply_remote`.
"""

from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Ino

# ---- content -----------------------------------------------------------------------------------


def set_content(conn: Connection, ino: Ino, *, sha1: str | None, size: int) -> None:
    """A reader of the node gets these bytes, where it has no draft."""
    conn.execute("UPDATE node SET sha1 = ?, size = ? WHERE ino = ?", (sha1, size, ino))


def set_size(conn: Connection, ino: Ino, size: int) -> None:
    """The node is shown with this size."""
    conn.execute("UPDATE node SET size = ? WHERE ino = ?", (size, ino))


def forget_content(conn: Connection, ino: Ino) -> None:
    """The node has no bytes of its own any more."""
    conn.execute("UPDATE node SET sha1 = NULL WHERE ino = ?", (ino,))


def show_base(conn: Connection, ino: Ino, *, size: int) -> None:
    """The node has the bytes that the service has, which are so many."""
    conn.execute("UPDATE node SET sha1 = base_sha1, size = ? WHERE ino = ?", (size, ino))


def go_back_to_base(conn: Connection, ino: Ino) -> None:
    """A node without a draft has the bytes that the service has, and takes whatever it says next for news."""
    conn.execute("UPDATE node SET sha1 = base_sha1, etag = NULL WHERE ino = ? AND draft IS NULL", (ino,))


def take_as_sent(conn: Connection, ino: Ino) -> None:
    """The bytes of the node are nothing that is to be sent."""
    conn.execute("UPDATE node SET base_sha1 = sha1 WHERE ino = ?", (ino,))


def set_draft(
    conn: Connection, ino: Ino, draft: int, *, size: int | None = None, mtime_ns: int | None = None
) -> None:
    """What is written to the node is in this draft; its size and time are these, or stay as they are."""
    conn.execute(
        "UPDATE node SET draft = ?1, size = coalesce(?2, size), mtime_ns = coalesce(?3, mtime_ns),"
        " ctime_ns = max(ctime_ns, coalesce(?3, 0)) WHERE ino = ?4",
        (draft, size, mtime_ns, ino),
    )


def note_written(conn: Connection, ino: Ino, draft: int, *, size: int, mtime_ns: int | None) -> None:
    """The size and the time (None: as it is) of what was written, if this is still the node's draft."""
    conn.execute(
        "UPDATE node SET size = ?1, mtime_ns = coalesce(?2, mtime_ns),"
        " ctime_ns = max(ctime_ns, coalesce(?2, 0)) WHERE ino = ?3 AND draft = ?4",
        (size, mtime_ns, ino, draft),
    )


def replace_draft(conn: Connection, ino: Ino, *, sha1: str, size: int) -> None:
    """What was written to the node is these bytes; it has no draft any more."""
    conn.execute("UPDATE node SET sha1 = ?, size = ?, draft = NULL WHERE ino = ?", (sha1, size, ino))


def forget_draft(conn: Connection, draft: int) -> None:
    """Whatever node has this draft has none."""
    conn.execute("UPDATE node SET draft = NULL WHERE draft = ?", (draft,))


# ---- mode, times, what lives here only ---------------------------------------------------------


def set_modified(conn: Connection, ino: Ino, mtime_ns: int) -> None:
    """The bytes of the node are of this time; it was changed then, if not later."""
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
    """The node's permission bits and times; what is None stays as it is."""
    conn.execute(
        "UPDATE node SET mode = coalesce(?, mode), atime_ns = coalesce(?, atime_ns),"
        " mtime_ns = coalesce(?, mtime_ns), ctime_ns = ? WHERE ino = ?",
        (mode, atime_ns, mtime_ns, ctime_ns, ino),
    )


def set_local(conn: Connection, ino: Ino, local: int) -> None:
    """Whether the node lives on this machine only, as the column says it."""
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
    """The node stands for this version of an item, in this place of the service."""
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
    """The node stands for a folder of the service, of which only its place is known."""
    conn.execute(
        "UPDATE node SET remote_id = ?, base_parent = ?, base_name = ?, base_key = name_key WHERE ino = ?",
        (remote_id, base_parent, name, ino),
    )


def hand_over_item(conn: Connection, old: Ino, new: Ino) -> None:
    """`new` stands for the item of `old`, as what it is there; `old` for none."""
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
    """The item is in no folder that the service shows; its sequence stays, and tells older news."""
    conn.execute("UPDATE node SET base_parent = NULL WHERE ino = ?", (ino,))


# ---- the two that are always there -------------------------------------------------------------


def insert_fixed(conn: Connection, ino: Ino, *, name: str, mode: int, remote_id: str | None) -> None:
    """The row of the root or of the trash, as a new database has it."""
    conn.execute(
        "INSERT INTO node(ino, parent, name, name_key, kind, mtime_ns, ctime_ns, mode, remote_id)"
        " VALUES (?, NULL, ?, ?, 'folder', 0, 0, ?, ?)",
        (ino, name, name, mode, remote_id),
    )
