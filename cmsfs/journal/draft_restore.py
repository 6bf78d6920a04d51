"""Restores drafts from the manifest when the database is lost.

Rule: existing nodes are never replaced: a restored file whose name is taken gets another name beside it.
"""

from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from cmsfs.cache import content_table
from cmsfs.journal import draft_rows, manifest, ops
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.replica.sharing import shares


@dataclass(frozen=True, slots=True)
class Restored:
    """A draft file that was restored to its node."""

    file: str
    path: str


def restore(conn: Connection, root: Path, known: manifest.Manifest) -> list[Restored]:
    """Restore the rows of files in the drafts folder that have none; return the restored files.

    For a database that was lost, or rebuilt from its readable parts: in an intact one, a file without a row
    was deleted.
    """
    found: list[Restored] = []
    if _is_new(conn) and known.root_id != _root_id(conn):
        tree.set_root(conn, known.root_id)
    for name, entry in sorted(known.entries.items()):
        path = root / name
        if not path.exists() or _has_row(conn, name):
            continue
        folder = _make_folders(conn, entry)
        ino, called = _find_or_make_node(conn, folder, entry)
        if entry.overlay is not None:
            _restore_draft(conn, ino, int(path.stem), entry, entry.overlay)
        else:
            _restore_content(conn, ino, name, entry.size)
        if not entry.local:
            ops.record(conn, ino, ops.OpKind.UPLOAD, due_ns=0)
        above = "".join(f"/{folder.name}" for folder in entry.folders)
        found.append(Restored(name, f"{above}/{called}"))
    return found


def _root_id(conn: Connection) -> str:
    return str(conn.execute("SELECT remote_id FROM node WHERE ino = ?", (ROOT,)).fetchone()[0])


def _is_new(conn: Connection) -> bool:
    return conn.execute("SELECT 1 FROM node WHERE ino > 2 LIMIT 1").fetchone() is None


def _has_row(conn: Connection, name: str) -> bool:
    if name.endswith(".draft"):
        sql, key = "SELECT 1 FROM draft d JOIN node n ON n.draft = d.id WHERE d.id = ?", name[:-6]
    else:
        sql, key = "SELECT 1 FROM content c JOIN node n ON n.sha1 = c.sha1 WHERE c.dirty AND c.sha1 = ?", name
    return conn.execute(sql, (key,)).fetchone() is not None


def _make_folders(conn: Connection, entry: manifest.ManifestEntry) -> Ino:
    parent = ROOT
    for folder in entry.folders:
        parent = _make_folder(conn, parent, folder, entry)
    return parent


def _make_folder(
    conn: Connection, parent: Ino, folder: manifest.ManifestFolder, entry: manifest.ManifestEntry
) -> Ino:
    if folder.is_shelf:
        return shares.shelf(conn, [])
    if folder.remote_id is not None:
        there = tree.remote_at(conn, NodeKind.FOLDER, folder.remote_id)
        if there is not None and there.parent is not None:
            return there.ino
    holder = tree.child_at(conn, parent, folder.name)
    if holder is not None and holder.is_folder:
        return holder.ino
    name = folder.name if holder is None else _free_name(conn, parent, folder.name)
    ino = tree.insert(conn, parent, name, NodeKind.FOLDER, now_ns=entry.mtime_ns)
    if folder.remote_id is None:
        ops.record(conn, ino, ops.OpKind.MKDIR, due_ns=0)
    else:
        above = tree.at_service(conn, parent).remote_id
        node_rows.set_folder_item(conn, ino, remote_id=folder.remote_id, base_parent=above, name=name)
    return ino


def _find_or_make_node(conn: Connection, folder: Ino, entry: manifest.ManifestEntry) -> tuple[Ino, str]:
    """Return the node for the bytes, if possible the one of the same item, and its name."""
    kind = NodeKind(entry.known.kind) if entry.known is not None else NodeKind.FILE
    if entry.known is not None:
        there = tree.remote_at(conn, kind, entry.known.remote_id)
        if there is not None and there.parent is not None:
            if not _is_as_sent(there):
                return _make_node(conn, folder, entry, None)
            _set_base(conn, there.ino, entry.known)
            return there.ino, there.name
    holder = tree.child_at(conn, folder, entry.name)
    if holder is not None and holder.remote_id is None and holder.kind is kind and _is_as_sent(holder):
        return holder.ino, holder.name
    return _make_node(conn, folder, entry, entry.known)


def _is_as_sent(node: Node) -> bool:
    """Whether a node has no unsent bytes that would be lost if it got others."""
    return node.draft is None and node.sha1 == node.base_sha1


def _make_node(
    conn: Connection, folder: Ino, entry: manifest.ManifestEntry, known: manifest.ManifestBase | None
) -> tuple[Ino, str]:
    name = (
        entry.name
        if tree.child_at(conn, folder, entry.name) is None
        else _free_name(conn, folder, entry.name)
    )
    kind = NodeKind(known.kind) if known is not None else NodeKind.FILE
    ino = tree.insert(conn, folder, name, kind, now_ns=entry.mtime_ns, mode=entry.mode, local=entry.local)
    if known is not None:
        _set_base(conn, ino, known)
    return ino, name


def _set_base(conn: Connection, ino: Ino, known: manifest.ManifestBase) -> None:
    """Make the node represent this version of the item: if the service has another one by now, the upload
    conflicts and both are kept."""
    node_rows.set_item(
        conn,
        ino,
        remote_id=known.remote_id,
        etag=known.etag,
        version=known.version,
        base_sha1=known.sha1,
        base_parent=known.parent,
        base_name=known.name,
        sequence=known.sequence,
    )


def _free_name(conn: Connection, folder: Ino, name: str) -> str:
    number, free = 1, naming.distinct(name, "recovered")
    while tree.child_at(conn, folder, free) is not None:
        number += 1
        free = naming.distinct(name, f"recovered {number}")
    return free


def _restore_draft(
    conn: Connection, ino: Ino, draft: int, entry: manifest.ManifestEntry, overlay: manifest.Overlay
) -> None:
    draft_rows.put(
        conn,
        draft,
        base_sha1=overlay.base_sha1,
        base_total=overlay.base_total,
        base_size=overlay.base_size,
        size=overlay.size,
        extents=overlay.extents,
    )
    node_rows.set_draft(conn, ino, draft, size=entry.size, mtime_ns=entry.mtime_ns)


def _restore_content(conn: Connection, ino: Ino, sha1: str, size: int) -> None:
    content_table.restore_dirty(conn, sha1, size)
    node_rows.set_content(conn, ino, sha1=sha1, size=size)
