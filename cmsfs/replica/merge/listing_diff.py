"""Nodes that a complete listing did not contain: candidates for deletion, which
`daemon.listing.deletion_check` confirms.

Every listing has a number, its generation, and marks the items that it contains with it (`node.seen`).

Rule: a listing describes what is below its folder at the service, which may differ from what is below it
locally.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import deletions, local_work
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.sharing import shares


def unseen_below(conn: Connection, folder: Ino, generation: int) -> list[Ino]:
    """Return the nodes that a complete listing of everything below `folder` did not contain.

    Excluded are nodes that were moved here locally and are still elsewhere at the service.  A listing starts
    by incrementing the generation, so items that became known since then are excluded, too.  Call it in a
    thread.
    """
    inos = tree.subtree(conn, folder)
    if not _any_unseen(conn, inos[1:], generation):
        return []
    inside = _inside(conn, folder, inos)
    sql = (
        "SELECT n.ino FROM json_each(?) AS j CROSS JOIN node AS n ON n.ino = j.value"
        " WHERE n.ino > 2 AND n.seen < ?"
    )
    return [row[0] for row in conn.execute(sql, (json.dumps(list(inside)), generation)).fetchall()]


def _any_unseen(conn: Connection, inos: Iterable[Ino], generation: int) -> bool:
    """Whether there may be anything to remove; for most listings there is not."""
    sql = (
        "SELECT 1 FROM json_each(?) AS j CROSS JOIN node AS n ON n.ino = j.value"
        " WHERE n.seen < ? AND n.remote_id IS NOT NULL AND n.ino > 2 LIMIT 1"
    )
    return conn.execute(sql, (json.dumps(list(inos)), generation)).fetchone() is not None


def _inside(conn: Connection, folder: Ino, inos: Iterable[Ino]) -> set[Ino]:
    """Return those of these nodes that are below the folder at the service, too; none if the folder is to be
    created again, because it was found to be gone meanwhile."""
    rows = conn.execute(
        "SELECT n.ino, n.kind, n.remote_id, n.base_parent FROM json_each(?) AS j"
        " CROSS JOIN node AS n ON n.ino = j.value WHERE n.remote_id IS NOT NULL",
        (json.dumps(list(inos)),),
    ).fetchall()
    top: str | None = None
    below: dict[str, list[tuple[Ino, str | None]]] = {}
    for row in rows:
        if row["ino"] == folder:
            top = row["remote_id"]
        elif row["base_parent"] is not None:
            found = (row["ino"], row["remote_id"] if row["kind"] == NodeKind.FOLDER else None)
            below.setdefault(row["base_parent"], []).append(found)
    inside: set[Ino] = set()
    waiting = [top] if top is not None else []
    while waiting:
        for ino, remote_id in below.pop(waiting.pop(), []):
            inside.add(ino)
            if remote_id is not None:
                waiting.append(remote_id)
    return inside


def unseen(
    conn: Connection, generation: int, after: Ino, last: Ino
) -> tuple[list[tuple[Ino, str | None]], Ino]:
    """Return the remote nodes with `after < ino <= last` that this listing has not seen, with their stored
    items; and the largest ino.  Call it in a thread."""
    rows = conn.execute(
        "SELECT ino, item FROM node WHERE ino > ? AND ino <= ? AND ino > 2 AND seen < ?"
        " AND remote_id IS NOT NULL AND parent IS NOT NULL",
        (after, last, generation),
    ).fetchall()
    return [(row[0], row[1]) for row in rows], conn.execute("SELECT max(ino) FROM node").fetchone()[0]


def seen_folders(conn: Connection, folder: Ino, generation: int, *, limit: int) -> dict[str, datetime | None]:
    """Return the folders below `folder`, here and at the service, that were seen since this generation, and
    when the service says that they changed.  Call it in a thread."""
    rows = conn.execute(
        "WITH RECURSIVE below(ino, remote_id, seen, item) AS ("
        "  SELECT ino, remote_id, seen, item FROM node WHERE ino = ?1"
        "  UNION ALL SELECT n.ino, n.remote_id, n.seen, n.item FROM below AS b"
        "  CROSS JOIN node AS n ON n.parent = b.ino AND n.kind = 'folder' AND n.base_parent = b.remote_id"
        ") SELECT remote_id, json_extract(item, '$.modified_at') FROM below"
        " WHERE ino != ?1 AND seen >= ?2 LIMIT ?3",
        (folder, generation, limit),
    ).fetchall()
    return {row[0]: datetime.fromisoformat(row[1]) if row[1] else None for row in rows}


def note_folders_seen(conn: Connection, remote_ids: list[str], generation: int) -> None:
    """Mark these folders as seen by a listing of this generation."""
    conn.execute(
        "UPDATE node SET seen = max(seen, ?) WHERE ino IN (SELECT n.ino FROM json_each(?) AS j"
        " CROSS JOIN node AS n ON n.kind = 'folder' AND n.remote_id = j.value)",
        (generation, json.dumps(remote_ids)),
    )


def unseen_in(conn: Connection, folder: Ino, generation: int) -> list[Ino]:
    """Return the nodes that the service had in one folder and that its complete listing did not contain, each
    with everything below it locally."""
    rows = conn.execute(
        "SELECT n.ino FROM node AS n JOIN node AS f ON f.ino = ?1 AND n.base_parent = f.remote_id"
        " WHERE n.parent IN (?1, ?3) AND n.remote_id IS NOT NULL AND n.seen < ?2",
        # At the service, shared items are in the root.
        (folder, generation, shares.find(conn) if folder == ROOT else None),
    ).fetchall()
    return [ino for row in rows for ino in tree.subtree(conn, row[0])]


def unplaced_folders(conn: Connection) -> list[Ino]:
    """Return the folders that are known only as the parents of others, or in which something was reported
    after they were gone: no listing of a folder contains what is below them.  Call it in a thread."""
    rows = conn.execute(
        "SELECT ino FROM node AS folder WHERE parent IS NULL AND kind = 'folder' AND ino > 2"
        " AND remote_id IS NOT NULL AND (etag IS NULL OR base_parent IS NULL"
        "  AND EXISTS (SELECT 1 FROM node WHERE parent = folder.ino))"
    ).fetchall()
    return [row[0] for row in rows]


def remove(conn: Connection, inos: Iterable[Ino], generation: int) -> list[Change]:
    """Remove these nodes, except those that were seen meanwhile."""
    changes: list[Change] = []
    depths = [(len(_above(conn, ino)), ino) for ino in inos]
    for _, ino in sorted(depths, reverse=True):
        node = tree.find_at(conn, ino)
        # Another update may have removed it since the comparison.
        if node is None or not _is_unseen(conn, ino, generation):
            continue
        if _holds_remote(conn, ino):
            _ask_later(conn, node)
            continue
        top = shares.top(conn, ino)
        is_lost = top is not None and (top.is_lost or _is_unseen(conn, top.ino, generation))
        deletions.remove_gone_node(conn, node, changes, is_lost=is_lost)
    shares.remove_if_empty(conn, changes)
    return changes


def _is_unseen(conn: Connection, ino: Ino, generation: int) -> bool:
    return bool(conn.execute("SELECT seen < ? FROM node WHERE ino = ?", (generation, ino)).fetchone()[0])


def _above(conn: Connection, ino: Ino) -> list[Ino]:
    found: list[Ino] = []
    current: Ino | None = ino
    while current is not None:
        found.append(current)
        row = conn.execute("SELECT parent FROM node WHERE ino = ?", (current,)).fetchone()
        current = row[0] if row else None
    return found


def _holds_remote(conn: Connection, ino: Ino) -> bool:
    """Whether this folder contains an item that, as far as known, the service has there.

    Then the service has the folder, too, unless the item has left it by now, which its own update will
    report (`_ask_later`).
    """
    sql = (
        "SELECT 1 FROM node AS n JOIN node AS p ON p.ino = n.parent"
        " WHERE n.parent = ? AND n.remote_id IS NOT NULL AND n.base_parent = p.remote_id LIMIT 1"
    )
    return conn.execute(sql, (ino,)).fetchone() is not None


def _ask_later(conn: Connection, folder: Node) -> None:
    """Have a missing folder asked for again, when the updates of the items that it still contains, which were
    deferred, have moved these out of it.  Without any, the service shows something in it, and has it, too."""
    rows = conn.execute(
        "SELECT coalesce(d.ino, n.ino) AS ino, d.remote_id IS NULL AS is_here FROM node AS n"
        " LEFT JOIN doubt AS d ON d.kind = n.kind AND d.remote_id = n.remote_id"
        " WHERE n.parent = ? AND n.base_parent = ? AND n.remote_id IS NOT NULL"
        " ORDER BY EXISTS (SELECT 1 FROM op WHERE op.ino = coalesce(d.ino, n.ino)) DESC",
        (folder.ino, folder.remote_id),
    ).fetchall()
    if folder.remote_id is not None and not any(row["is_here"] for row in rows):
        update = local_work.DeferredUpdate(folder.kind, folder.remote_id, local_work.ANYHOW, rows[0]["ino"])
        local_work.defer(conn, update)
