"""Inode identity: an inode is one history of contents, from one item version or a local creation, changed
only by writes of this machine.

Size, pages, mappings and handles belong to the kernel's inode.  So a remote update that would replace the
contents of an open file moves the name, the item and everything attached to the item to a new inode
(`split_off`); the open one continues without a name, as after a rename over it.  The same happens to a file
whose item leaves the drive (`displace`).  What a program then writes to such an inode exists nowhere else,
and nobody here has deleted it: when the first bytes are recorded, it gets a name again (`name_displaced`).

    what took its name                 the name that it gets
    a newer version of its item        a conflict copy beside that version, wherever that is by then
    nothing: the item was deleted      its old name and place; deleted parent folders are created again
    nothing, but the name is taken     a conflict copy beside the item that has it
    nothing: we lost access            its old name, as the same item (`lost_access`)

Rule: a row of `lineage` means that a remote update took the inode's name, or gave it a name under which a
program used it that meant another file.  An inode without a name and without a row was unlinked or replaced
by a program of this machine, and its contents are deleted with its last handle.
"""

import json
from collections.abc import Collection
from sqlite3 import Connection

from cmsfs.replica import inodes, item_details, link_texts, pins, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import local_work, name_conflicts
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.replica.rows import in_flight, op_rows, past_versions, xattr_rows
from cmsfs.replica.sharing import shares
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# The columns that belong to the item and move with it; sha1, size, draft and times belong to the inode's
# history and are on both.
_ITEM = (
    "parent, name, name_key, kind, size, mtime_ns, ctime_ns, mode, sha1, remote_id, etag, version, base_sha1,"
    " base_parent, base_name, base_key, sequence, item, seen, local, atime_ns"
)


def split_off(conn: Connection, node: Node, changes: list[Change]) -> Node:
    """Move name and item of an open inode to a new one, which is returned; it shows the service's version.

    Contents that were written to `node`, and their upload, stay with it.
    """
    row = tuple(conn.execute(f"SELECT {_ITEM} FROM node WHERE ino = ?", (node.ino,)).fetchone())
    # It no longer has its base version as its item, but can still download it from there.
    if node.base_sha1 is not None and node.remote_id is not None:
        past_versions.keep(conn, node.base_sha1, node.remote_id, node.version)
    conn.execute(
        "UPDATE node SET parent = NULL, remote_id = NULL, etag = NULL, version = NULL, base_parent = NULL,"
        " base_name = NULL, base_key = NULL, sequence = 0 WHERE ino = ?",
        (node.ino,),
    )
    marks = ", ".join("?" * len(row))
    fresh = conn.execute(f"INSERT INTO node({_ITEM}) VALUES ({marks})", row).lastrowid
    assert fresh is not None
    conn.execute("UPDATE node SET sha1 = base_sha1 WHERE ino = ?", (fresh,))
    op_rows.transfer_item(conn, node.ino, fresh)
    in_flight.transfer_versions(conn, node.ino, fresh)
    local_work.transfer_deferred(conn, node.ino, fresh)
    _hand_on(conn, node.ino, fresh)
    if node.parent is not None:
        displace(conn, node, successor=fresh)
        changes.append(Change(ChangeKind.ENTRY, fresh, node.parent, node.name))
    else:
        set_successor(conn, node.ino, fresh)
    return tree.get(conn, fresh)


def transfer_item_data(conn: Connection, ino: Ino, item: Node | None) -> None:
    """After a conflict was resolved, move the item's attached data to the node that has the item now."""
    if item is not None and item.ino != ino:
        _hand_on(conn, ino, item.ino)
        conn.execute(
            "UPDATE node SET mode = (SELECT mode FROM node WHERE ino = ?1) WHERE ino = ?2", (ino, item.ino)
        )


def _hand_on(conn: Connection, old: Ino, new: Ino) -> None:
    """Move rows about the item to `new`; copy rows about the file."""
    pins.transfer(conn, old, new)
    item_details.transfer(conn, old, new)
    op_rows.transfer_description(conn, old, new)
    conn.execute("UPDATE lineage SET successor = ?2 WHERE successor = ?1", (old, new))
    xattr_rows.copy(conn, old, new)
    link_texts.copy(conn, old, new)


def displace(conn: Connection, node: Node, *, successor: Ino | None = None, is_lost: bool = False) -> None:
    """Record that a remote update takes the node from its current place; `is_lost`: the service still has
    it."""
    conn.execute(
        "INSERT OR REPLACE INTO lineage(ino, parent, name, successor, lost) VALUES (?, ?, ?, ?, ?)",
        (node.ino, node.parent, node.name, successor, is_lost),
    )


def set_successor(conn: Connection, ino: Ino, successor: Ino) -> None:
    """Set the inode that now has the item of a displaced one."""
    conn.execute("UPDATE lineage SET successor = ? WHERE ino = ?", (successor, ino))


def is_displaced(conn: Connection, ino: Ino) -> bool:
    """Whether a remote update took the inode's name, and no program has unlinked it."""
    return conn.execute("SELECT 1 FROM lineage WHERE ino = ?", (ino,)).fetchone() is not None


def is_displaced_now(db: Database, ino: Ino) -> bool:
    """As `is_displaced`, outside of a transaction."""
    return db.row("SELECT 1 FROM lineage WHERE ino = ?", ino) is not None


def is_successor(db: Database, ino: Ino) -> bool:
    """Whether this inode got its name from one that was open when the file's contents were replaced."""
    return db.row("SELECT 1 FROM lineage WHERE successor = ?", ino) is not None


def name_displaced(conn: Connection, ino: Ino, changes: list[Change]) -> None:
    """Give a name to a displaced inode with unsent contents; the caller records the upload."""
    row = conn.execute("SELECT parent, name, successor, lost FROM lineage WHERE ino = ?", (ino,)).fetchone()
    node = tree.get(conn, ino)
    successor = tree.find_at(conn, row["successor"]) if row["successor"] is not None else None
    if successor is not None and successor.parent is not None:
        parent, name = successor.parent, successor.name
    else:
        parent, name = row["parent"], row["name"]
    parent = _made_anew(conn, parent, changes)
    if not row["lost"]:
        local_work.recreate(conn, node)
    if row["successor"] is not None or tree.child_at(conn, parent, name) is not None:
        name = name_conflicts.free_name(conn, parent, name)
    tree.place(conn, ino, parent, name)
    changes.append(Change(ChangeKind.ENTRY, ino, parent, name))
    inodes.note_fresh(conn, ino)


def name_all_displaced(conn: Connection, held: Collection[Ino] = ()) -> int:
    """Give a name to each displaced inode with unsent contents; return how many.

    Call it while only the `held` inodes are open: the rows of the others are deleted.
    """
    rows = conn.execute(
        "SELECT l.ino FROM lineage AS l JOIN node AS n ON n.ino = l.ino JOIN draft AS d ON d.id = n.draft"
        " WHERE n.parent IS NULL AND (d.extents <> '[]' OR d.size <> d.base_total)"
    ).fetchall()
    for row in rows:
        name_displaced(conn, row["ino"], [])
        op_rows.record_once(conn, row["ino"], "upload")
    conn.execute(
        "DELETE FROM lineage WHERE ino NOT IN (SELECT value FROM json_each(?))", (json.dumps(list(held)),)
    )
    return len(rows)


def _made_anew(conn: Connection, folder: Ino | None, changes: list[Change]) -> Ino:
    """Put a folder that a remote update removed back in its place, to be created at the service; return it.

    Returns the root if nothing is known of it any more.
    """
    node = tree.find_at(conn, folder) if folder is not None else None
    if node is None or node.ino == ROOT:
        return ROOT
    if node.is_shelf:
        return shares.shelf(conn, changes)
    if node.parent is not None:
        # Its parent may have been removed, too.
        _made_anew(conn, node.parent, changes)
        return node.ino
    row = conn.execute(
        "SELECT parent, name, successor, lost FROM lineage WHERE ino = ?", (node.ino,)
    ).fetchone()
    if row is None:
        return ROOT  # it was removed here
    if row["successor"] is not None and (heir := tree.find_at(conn, row["successor"])) is not None:
        return _made_anew(conn, heir.ino, changes)
    parent = _made_anew(conn, row["parent"], changes)
    name: str = row["name"]
    if (holder := tree.child_at(conn, parent, name)) is not None:
        if holder.is_folder:
            return holder.ino
        name = name_conflicts.free_name(conn, parent, name)
    # The kernel knows this inode as deleted, and allows no entries in it.
    if row["lost"]:
        fresh = split_off(conn, node, changes).ino
    else:
        local_work.recreate(conn, node)
        fresh = tree.insert(conn, None, name, node.kind, now_ns=clock.time_ns(), mode=node.mode)
        op_rows.transfer(conn, node.ino, fresh)
        set_successor(conn, node.ino, fresh)
        _hand_on(conn, node.ino, fresh)
    tree.place(conn, fresh, parent, name)
    tree.mark_listed(conn, fresh, at=int(clock.time()))
    changes.append(Change(ChangeKind.ENTRY, fresh, parent, name))
    return fresh
