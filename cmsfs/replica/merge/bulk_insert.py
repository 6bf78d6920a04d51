"""Inserts new items into the tree in bulk, one page at a time.

A first listing consists almost only of new items, perhaps a million; one statement for a page is five times
faster than the statements needed for an item that may conflict with something.

Rule: only plainly new items are inserted; items that have a row, a name clash or no folder are returned, to
be merged one by one in `apply_remote`.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from sqlite3 import Connection
from typing import Any

from cmsfs.models import url_files, wire_names
from cmsfs.replica import local_attributes, naming, numbers, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import FILE_MODE, FOLDER_MODE, ROOT, Ino, NodeKind, Remote, shortcut_of
from cmsfs.replica.sharing import shares

ROOT_ID = "0"

# CROSS JOIN fixes the order of the loops: from the page to the index, never the reverse.

# The statement ignores name clashes; they are found by what is missing afterwards.
_COLUMNS = (
    "ino, parent, name, name_key, kind, size, mtime_ns, ctime_ns, mode, sha1,"
    " remote_id, etag, version, base_sha1, base_parent, base_name, base_key, sequence, item, seen, number"
)
_ROW = f"({', '.join('?' * len(_COLUMNS.split(',')))})"

# Rows for each statement: between two statements the interpreter's lock is released, and the event loop keeps
# it for a while.
_INSERTS = {
    count: f"INSERT OR IGNORE INTO node({_COLUMNS}) VALUES {', '.join([_ROW] * count)}"
    for count in (200, 40, 5, 1)
}

_KNOWN = """
  SELECT j.value FROM json_each(?2) AS j WHERE EXISTS (
    SELECT 1 FROM node WHERE kind = ?1 AND remote_id = j.value)
"""

# In one row, for the same reason as `_INSERTS`.
_FOLDERS = """
  SELECT json_group_object(n.remote_id, n.ino) FROM json_each(?) AS j
  CROSS JOIN node AS n ON n.kind = 'folder' AND n.remote_id = j.value
"""

_UNCHANGED = """
  SELECT n.ino, n.remote_id, n.name, n.sequence, n.etag, above.remote_id, n.base_sha1,
    CASE WHEN ?1 = 'web_link' THEN n.item END
  FROM json_each(?2) AS j
  CROSS JOIN node AS n ON n.kind = ?1 AND n.remote_id = j.value AND n.base_parent IS NOT NULL
  CROSS JOIN node AS above ON above.ino = n.parent
"""


def insert(
    conn: Connection, remotes: Sequence[Remote], generation: int, changes: list[Change]
) -> list[Remote]:
    """Insert plainly new items into the tree; return the others, to be merged one by one."""
    left: list[Remote] = []
    known = _known(conn, remotes)
    rules = shares.rules(conn)
    waiting: list[Remote] = []
    for remote in remotes:
        key = (remote.kind, remote.id)
        is_root = remote.kind is NodeKind.FOLDER and remote.id == ROOT_ID
        if key in known or remote.parent_id is None or is_root or shares.is_shared(rules, remote):
            left.append(remote)
        else:
            known.add(key)
            waiting.append(remote)
    folders = _folders(conn, waiting)
    while waiting:
        ready = [remote for remote in waiting if remote.parent_id in folders]
        if not ready:
            # Its folder was on no page so far, and may be on none.
            folders[waiting[0].parent_id or ""] = placeholder(conn, waiting[0])
            continue
        waiting = [remote for remote in waiting if remote.parent_id not in folders]
        # Folders first: waiting items may be inside.
        ready.sort(key=lambda remote: remote.kind is not NodeKind.FOLDER)
        inos = _insert(conn, ready, folders, rules, generation, changes)
        local_attributes.restore(conn, (ino for ino in inos if ino is not None))
        for remote, ino in zip(ready, inos, strict=True):
            if ino is None:
                left.append(remote)
            elif remote.kind is NodeKind.FOLDER:
                folders[remote.id] = ino
        if None in inos:
            # Items inside a folder with a name clash wait until the clash is resolved.
            stuck = {remote.id for remote, ino in zip(ready, inos, strict=True) if ino is None}
            left += [remote for remote in waiting if remote.parent_id in stuck]
            waiting = [remote for remote in waiting if remote.parent_id not in stuck]
    return left


def unchanged(conn: Connection, remotes: Iterable[Remote], generation: int) -> list[Remote]:
    """Mark items that are unchanged as seen by this listing; return the others."""
    by_kind: dict[NodeKind, dict[str, Remote]] = {}
    for remote in remotes:
        by_kind.setdefault(remote.kind, {})[remote.id] = remote
    seen: list[Ino] = []
    same: set[tuple[NodeKind, str]] = set()
    for kind, some in by_kind.items():
        for ino, remote_id, name, sequence, etag, above, sha1, item in conn.execute(
            _UNCHANGED, (kind.value, json.dumps(list(some)))
        ):
            remote = some[remote_id]
            known = (sequence, etag, above, sha1)
            if (
                known == (remote.sequence, remote.etag, remote.parent_id, remote.sha1)
                and name == naming.file_name(kind, remote.name)
                and (kind is not NodeKind.LINK or url_files.of_item(item) == shortcut_of(remote.item))
            ):
                seen.append(ino)
                same.add((kind, remote_id))
    if seen:
        conn.execute(
            "UPDATE node SET seen = ?1 WHERE ino IN (SELECT value FROM json_each(?2)) AND seen < ?1",
            (generation, json.dumps(seen)),
        )
    return [one for some in by_kind.values() for one in some.values() if (one.kind, one.id) not in same]


def placeholder(conn: Connection, remote: Remote) -> Ino:
    """Insert a row for the unknown parent folder of an item, with only its name."""
    name = remote.parent_name or remote.parent_id or ""
    ino = tree.insert(conn, None, name, NodeKind.FOLDER, now_ns=0)
    conn.execute("UPDATE node SET remote_id = ? WHERE ino = ?", (remote.parent_id, ino))
    return ino


def _known(conn: Connection, remotes: Sequence[Remote]) -> set[tuple[NodeKind, str]]:
    found: set[tuple[NodeKind, str]] = set()
    for kind in {remote.kind for remote in remotes}:
        wanted = json.dumps([remote.id for remote in remotes if remote.kind is kind])
        found.update((kind, row[0]) for row in conn.execute(_KNOWN, (kind.value, wanted)))
    return found


def _folders(conn: Connection, remotes: Sequence[Remote]) -> dict[str, Ino]:
    """Return the known parent folders of these items, by the service's id."""
    wanted = {remote.parent_id for remote in remotes} - {ROOT_ID}
    found: dict[str, Ino] = json.loads(conn.execute(_FOLDERS, (json.dumps(list(wanted)),)).fetchone()[0])
    found[ROOT_ID] = ROOT
    return found


def _insert(
    conn: Connection,
    remotes: Sequence[Remote],
    folders: dict[str, Ino],
    rules: shares.Rules,
    generation: int,
    changes: list[Change],
) -> list[Ino | None]:
    """Insert these items; return their inode numbers, None for those with a name clash."""
    last = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'node'").fetchone()
    first: Ino = last[0] + 1
    rows: list[tuple[Any, ...]] = []
    paths: dict[Ino, str | None] = {}
    for number, one in enumerate(remotes, first):
        folder = folders[one.parent_id or ""]
        name = shares.told_name(rules, one, folder)
        if folder not in paths:
            paths[folder] = numbers.folder_path(conn, folder)
        path = paths[folder] if one.kind is NodeKind.FILE else None
        key = wire_names.name_key(name)
        base_key = key if name == one.name else wire_names.name_key(one.name)
        rows.append(
            (
                number,
                folder,
                name,
                key,
                one.kind.value,
                one.size,
                one.mtime_ns,
                one.mtime_ns,
                FOLDER_MODE if one.kind is NodeKind.FOLDER else FILE_MODE,
                one.sha1,
                one.id,
                one.etag,
                one.version,
                one.sha1,
                one.parent_id,
                one.name,
                base_key,
                one.sequence,
                one.json,
                generation,
                None if path is None else numbers.of_place(path, name),
            )
        )
    done = at = 0
    for count, sql in _INSERTS.items():
        while len(rows) - at >= count:
            values = list(itertools.chain.from_iterable(rows[at : at + count]))
            done += conn.execute(sql, values).rowcount
            at += count
    inos: list[Ino | None] = list(range(first, first + len(rows)))
    if done != len(rows):
        there = {row[0] for row in conn.execute("SELECT ino FROM node WHERE ino >= ?", (first,))}
        inos = [ino if ino in there else None for ino in inos]
    for ino, row in zip(inos, rows, strict=True):
        if ino is not None:
            changes.append(Change(ChangeKind.ENTRY, ino, row[1], row[2], is_new=True))
    return inos
