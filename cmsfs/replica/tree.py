"""Reading and changing the local tree.

Reads take the `Database` and are point queries on the event loop; writes take the `Connection` of a running
transaction and can be combined.  Remote updates are applied in `merge.apply_remote`, not here.

Rule: this module only moves rows; callers decide, from operations and drafts, what happens to a node.  But it
never deletes a row that an operation or draft needs (`discard`), nor the source of a draft's base contents.
"""

import json
from collections.abc import Callable, Collection, Iterable
from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica import local_attributes, numbers
from cmsfs.replica.nodes import COLUMNS, FILE_MODE, FOLDER_MODE, ROOT, Ino, Node, NodeKind, node_from_row
from cmsfs.sqlite import Database

_FIND = f"SELECT {COLUMNS} FROM node WHERE ino = ?"
_FIND_CHILD = f"SELECT {COLUMNS} FROM node WHERE parent = ? AND name_key = ?"
_FIND_REMOTE = f"SELECT {COLUMNS} FROM node WHERE kind = ? AND remote_id = ?"
_UNLISTED = """
  SELECT n.ino FROM node AS n INDEXED BY node_remote LEFT JOIN listing AS l ON l.ino = n.ino
  WHERE n.kind = 'folder' AND n.remote_id IS NOT NULL AND n.parent IS NOT NULL AND n.ino > ?
    AND (l.listed_at IS NULL OR l.listed_at < 0) ORDER BY n.ino LIMIT ?
"""
_HAS_UNLISTED = """
  SELECT 1 FROM node AS n LEFT JOIN listing AS l ON l.ino = n.ino
  WHERE n.parent = ? AND n.kind = 'folder' AND (l.listed_at IS NULL OR l.listed_at < 0) LIMIT 1
"""
_COUNT_UNLISTED = _HAS_UNLISTED.replace("SELECT 1", "SELECT count(*) AS n").replace(" LIMIT 1", "")
_CHILDREN = f"SELECT {COLUMNS} FROM node WHERE parent = ? AND ino > ? AND ino <= ? ORDER BY ino LIMIT ?"
_LAST = 2**63 - 1

_CHILDREN_BY_NAME = f"SELECT {COLUMNS} FROM node WHERE parent = ? AND name_key > ? ORDER BY name_key LIMIT ?"


# ---- reads -------------------------------------------------------------------------------------


def find(db: Database, ino: Ino) -> Node | None:
    row = db.row(_FIND, ino)
    return node_from_row(row) if row else None


def above(db: Database, ino: Ino) -> Ino:
    """Return a node's folder; the node itself if it has none."""
    node = find(db, ino)
    return ino if node is None or node.parent is None else node.parent


def root_id(db: Database) -> str:
    """Return the service's id of the drive's root folder."""
    row = db.row("SELECT remote_id FROM node WHERE ino = ?", ROOT)
    assert row is not None
    return str(row["remote_id"])


def set_root(conn: Connection, remote_id: str) -> None:
    """Make a folder of the service the root of an empty tree."""
    conn.execute("UPDATE node SET remote_id = ? WHERE ino = ?", (remote_id, ROOT))


def find_child(db: Database, parent: Ino, name: str) -> Node | None:
    """Return the child of exactly this name.  Use `find_clash` to check whether a name is free."""
    row = db.row(_FIND_CHILD, parent, wire_names.name_key(name))
    return node_from_row(row) if row and row["name"] == name else None


def find_clash(db: Database, parent: Ino, name: str) -> Node | None:
    """Return the child with this name, ignoring case: the service allows only one of them."""
    row = db.row(_FIND_CHILD, parent, wire_names.name_key(name))
    return node_from_row(row) if row else None


def find_remote(db: Database, kind: NodeKind, remote_id: str) -> Node | None:
    row = db.row(_FIND_REMOTE, kind, remote_id)
    return node_from_row(row) if row else None


def children(db: Database, parent: Ino, *, after: Ino = 0, upto: Ino = _LAST, limit: int = 256) -> list[Node]:
    """Return up to `limit` children with `after < ino <= upto`, in order of ino: stable under concurrent
    changes."""
    return [node_from_row(row) for row in db.rows(_CHILDREN, parent, after, upto, limit)]


def children_by_name(db: Database, parent: Ino, *, after: str = "", limit: int = 256) -> list[Node]:
    """Return up to `limit` children after a name, in case-insensitive order of names."""
    key = wire_names.name_key(after) if after else ""
    return [node_from_row(row) for row in db.rows(_CHILDREN_BY_NAME, parent, key, limit)]


def has_children(conn: Connection, ino: Ino) -> bool:
    return conn.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (ino,)).fetchone() is not None


def path(db: Database, ino: Ino) -> str:
    """Return the path from the root, beginning with `/`; for a detached node, its last name in
    parentheses."""
    parts: list[str] = []
    current: Ino | None = ino
    while current is not None:
        row = db.row("SELECT parent, name FROM node WHERE ino = ?", current)
        if row is None:
            return f"(ino {ino})"
        if row["parent"] is None and row["name"]:
            return f"({row['name']})"
        parts.append(row["name"])
        current = row["parent"]
    return "/".join(reversed(parts)) or "/"


def is_listed(db: Database, ino: Ino) -> bool:
    """Whether this folder is listed completely."""
    return db.row("SELECT 1 FROM listing WHERE ino = ? AND listed_at >= 0", ino) is not None


def nodes_with_content(db: Database, sha1: str) -> list[Ino]:
    """Return the nodes with this content."""
    return [row["ino"] for row in db.rows("SELECT ino FROM node WHERE sha1 = ?", sha1)]


def item_json(db: Database, ino: Ino) -> str | None:
    """Return the item's stored JSON, as last reported by the service."""
    row = db.row("SELECT item FROM node WHERE ino = ?", ino)
    return row["item"] if row else None


def item_at(conn: Connection, ino: Ino) -> str | None:
    """As `item_json`, within this transaction."""
    row = conn.execute("SELECT item FROM node WHERE ino = ?", (ino,)).fetchone()
    return row["item"] if row is not None else None


def pending(conn: Connection, ino: Ino) -> set[str]:
    """Return the kinds of a node's pending operations."""
    return {row[0] for row in conn.execute("SELECT kind FROM op WHERE ino = ?", (ino,))}


# ---- writes ------------------------------------------------------------------------------------


def get(conn: Connection, ino: Ino) -> Node:
    """Return the node, within this transaction; KeyError if there is none."""
    row = conn.execute(_FIND, (ino,)).fetchone()
    if row is None:
        raise KeyError(ino)
    return node_from_row(row)


def find_at(conn: Connection, ino: Ino) -> Node | None:
    """Return the node, within this transaction, or None."""
    row = conn.execute(_FIND, (ino,)).fetchone()
    return node_from_row(row) if row else None


def parent_at(conn: Connection, ino: Ino) -> Ino | None:
    """Return a node's folder, within this transaction; None if it has none."""
    row = conn.execute("SELECT parent FROM node WHERE ino = ?", (ino,)).fetchone()
    return row[0] if row is not None else None


def at_service(conn: Connection, ino: Ino) -> Node:
    """Return the folder that corresponds to this one at the service: shared items are in the root there."""
    node = get(conn, ino)
    return get(conn, ROOT) if node.is_shelf else node


def child_at(conn: Connection, parent: Ino, name: str) -> Node | None:
    """As `find_clash`, within this transaction."""
    row = conn.execute(_FIND_CHILD, (parent, wire_names.name_key(name))).fetchone()
    return node_from_row(row) if row else None


def remote_at(conn: Connection, kind: NodeKind, remote_id: str) -> Node | None:
    row = conn.execute(_FIND_REMOTE, (kind, remote_id)).fetchone()
    return node_from_row(row) if row else None


def insert(
    conn: Connection,
    parent: Ino | None,
    name: str,
    kind: NodeKind,
    *,
    now_ns: int,
    mode: int | None = None,
    local: bool = False,
    draft: int | None = None,
    path: str | None = None,
) -> Ino:
    """Insert a node.  Its place is free; `local`: never uploaded; `draft`: contents; `path`: its folder's."""
    if mode is None:
        mode = FOLDER_MODE if kind is NodeKind.FOLDER else FILE_MODE
    number = numbers.for_new(conn, parent, name, path=path) if kind is NodeKind.FILE else None
    cursor = conn.execute(
        "INSERT INTO node(parent, name, name_key, kind, mtime_ns, ctime_ns, mode, local, draft, number)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (parent, name, wire_names.name_key(name), kind, now_ns, now_ns, mode, local, draft, number),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def place(conn: Connection, ino: Ino, parent: Ino, name: str) -> None:
    """Move a node to a place, which must be free."""
    conn.execute(
        "UPDATE node SET parent = ?, name = ?, name_key = ? WHERE ino = ?",
        (parent, name, wire_names.name_key(name), ino),
    )
    # It has a name again, so it is no longer displaced.
    conn.execute("DELETE FROM lineage WHERE ino = ?", (ino,))


def detach(conn: Connection, ino: Ino) -> None:
    """Take a node out of its folder; the row stays for handles and operations that need it."""
    conn.execute("UPDATE node SET parent = NULL WHERE ino = ?", (ino,))


def touch(conn: Connection, ino: Ino, now_ns: int) -> None:
    """Update a folder's times after a change of its entries."""
    conn.execute("UPDATE node SET mtime_ns = ?, ctime_ns = ? WHERE ino = ?", (now_ns, now_ns, ino))


def mark_listed(conn: Connection, ino: Ino, *, at: int) -> None:
    """Mark this folder as listed completely, unless it is gone."""
    conn.execute(
        "INSERT OR REPLACE INTO listing(ino, listed_at) SELECT ino, ? FROM node WHERE ino = ?", (at, ino)
    )


def mark_all_listed(conn: Connection, remote_ids: Iterable[str], *, at: int) -> None:
    """Mark these folders as listed completely."""
    conn.execute(
        "INSERT OR REPLACE INTO listing(ino, listed_at)"
        " SELECT n.ino, ?1 FROM json_each(?2) AS j"
        " CROSS JOIN node AS n ON n.kind = 'folder' AND n.remote_id = j.value",
        (at, json.dumps(list(remote_ids))),
    )


def note_seen(conn: Connection, kind: NodeKind, remote_id: str, generation: int) -> None:
    """Mark the item as seen by a listing of this generation, whatever its state."""
    conn.execute(
        "UPDATE node SET seen = max(seen, ?) WHERE kind = ? AND remote_id = ?", (generation, kind, remote_id)
    )


def mark_seen(conn: Connection, remote_ids: list[str], generation: int) -> None:
    """Record that a full enumeration has seen these folders; they count as listed when it is complete."""
    conn.execute(
        "INSERT OR IGNORE INTO listing(ino, listed_at)"
        " SELECT n.ino, -?1 FROM json_each(?2) AS j"
        " CROSS JOIN node AS n ON n.kind = 'folder' AND n.remote_id = j.value",
        (generation, json.dumps(remote_ids)),
    )


def mark_all_seen_listed(conn: Connection, generation: int, *, at: int) -> None:
    """Mark the folders that this listing has seen, and that were not marked unlisted since, as listed."""
    conn.execute("UPDATE listing SET listed_at = ? WHERE listed_at = ?", (at, -generation))
    conn.execute("DELETE FROM listing WHERE listed_at < 0")


def has_unlisted(db: Database, ino: Ino) -> bool:
    """Whether a direct subfolder is not listed yet."""
    return db.row(_HAS_UNLISTED, ino) is not None


def count_unlisted(db: Database, ino: Ino) -> int:
    """Return how many direct subfolders are not listed yet."""
    row = db.row(_COUNT_UNLISTED, ino)
    return int(row["n"]) if row is not None else 0


def is_listed_below(conn: Connection, ino: Ino) -> bool:
    """Whether the folder and all folders below it are listed; walks all of them: call it in a thread."""
    folders = json.dumps(subtree(conn, ino, kind=NodeKind.FOLDER))
    sql = "SELECT count(*) FROM listing WHERE listed_at >= 0 AND ino IN (SELECT value FROM json_each(?))"
    return bool(conn.execute(sql, (folders,)).fetchone()[0] == len(json.loads(folders)))


def unlisted(conn: Connection, *, after: Ino = 0, limit: int = 500) -> list[Ino]:
    """Return folders that are not listed yet, with an ino above `after`; walks all folders: call it in a
    thread."""
    return [row[0] for row in conn.execute(_UNLISTED, (after, limit))]


def has_listings(conn: Connection) -> bool:
    """Whether any folder is listed."""
    return conn.execute("SELECT 1 FROM listing LIMIT 1").fetchone() is not None


def mark_unlisted(conn: Connection, ino: Ino) -> None:
    """Mark this folder as not listed completely."""
    conn.execute("DELETE FROM listing WHERE ino = ?", (ino,))


def mark_unlisted_below(conn: Connection, ino: Ino) -> None:
    """Mark this folder and all folders below it as not listed completely."""
    conn.execute(
        "DELETE FROM listing WHERE ino IN (SELECT value FROM json_each(?))",
        (json.dumps(subtree(conn, ino, kind=NodeKind.FOLDER)),),
    )


def mark_all_unlisted(conn: Connection) -> None:
    """Mark all folders as not listed completely."""
    conn.execute("DELETE FROM listing")


def subtree(conn: Connection, ino: Ino, *, kind: NodeKind | None = None) -> list[Ino]:
    """Return the node and everything below it (of one kind, if given), ancestors before descendants."""
    rows = conn.execute(
        "WITH RECURSIVE below(ino, kind, depth) AS ("
        "  SELECT ino, kind, 0 FROM node WHERE ino = ?"
        "  UNION ALL SELECT n.ino, n.kind, depth + 1 FROM node n JOIN below b ON n.parent = b.ino"
        ") SELECT ino FROM below WHERE ? IS NULL OR kind = ? ORDER BY depth",
        (ino, kind, kind),
    )
    return [row[0] for row in rows]


def is_below(conn: Connection, ino: Ino, ancestor: Ino) -> bool:
    """Whether `ino` is `ancestor` or lies somewhere below it."""
    current: Ino | None = ino
    while current is not None:
        if current == ancestor:
            return True
        row = conn.execute("SELECT parent FROM node WHERE ino = ?", (current,)).fetchone()
        current = row[0] if row else None
    return False


def was_shown(conn: Connection, ino: Ino) -> bool:
    """Whether a detached node had a place before; a placeholder for an unknown parent never had one."""
    row = conn.execute("SELECT base_name FROM node WHERE ino = ?", (ino,)).fetchone()
    return row is not None and row[0] is not None


def discard(conn: Connection, ino: Ino) -> bool:
    """Delete the row of a detached node unless an operation, a draft, a child or a lineage needs it; whether
    it was deleted."""
    local_attributes.keep(conn, ino)
    cursor = conn.execute(
        "DELETE FROM node WHERE ino = ?1 AND parent IS NULL AND ino > 2 AND draft IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM op WHERE op.ino = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM node child WHERE child.parent = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM lineage WHERE lineage.parent = ?1)",
        (ino,),
    )
    if not cursor.rowcount:
        local_attributes.drop(conn, ino)
    return cursor.rowcount > 0


def discard_detached(conn: Connection, held: Collection[Ino] = ()) -> int:
    """Delete all such rows except `held` ones; only while nothing else is open and no listing runs.
    Returns how many."""
    rows = conn.execute("SELECT ino FROM node WHERE parent IS NULL AND ino > 2").fetchall()
    return sum(discard(conn, row[0]) for row in rows if row[0] not in held)


def detached(db: Database, is_held: Callable[[Ino], bool]) -> list[Ino]:
    """Return the detached nodes that `is_held`."""
    rows = db.rows("SELECT ino FROM node WHERE parent IS NULL AND ino > 2")
    return [row["ino"] for row in rows if is_held(row["ino"])]
