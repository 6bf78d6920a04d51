"""Carries the metadata of folders to what is below them, where a cascade policy says so.

What comes below such a folder later is described by triggers (`item_under_policy` in schema.sql), however it
comes there: made, uploaded, copied, moved or restored.

Rule: what has values of its own keeps them, unless a policy is applied to overwrite them.
"""

from sqlite3 import Connection, Row

from cmsfs.runtime import chance
from cmsfs.service.access import protection
from cmsfs.service.storage import store, tree_paths

_BELOW = "SELECT id FROM item WHERE kind < 2 AND path >= ? AND path < ?"
_POLICY = "SELECT 1 FROM cascade_policy WHERE folder = ? AND template = ?"
_DESCRIBED = "SELECT id, item FROM metadata_instance WHERE template = ? AND data != ?"


def fill(conn: Connection, folder: Row, instance: Row) -> int:
    """Describe what is below a folder and has no metadata of the template; how many items that was."""
    rows = conn.execute(
        f"{_BELOW} AND id NOT IN (SELECT item FROM metadata_instance WHERE template = ?)",
        (*tree_paths.below(folder), instance["template"]),
    )
    made = conn.executemany(
        "INSERT INTO metadata_instance (uuid, item, template, data, type_version) VALUES (?, ?, ?, ?, ?)",
        (
            (str(chance.uuid4()), row["id"], instance["template"], instance["data"], instance["type_version"])
            for row in rows.fetchall()
        ),
    )
    return made.rowcount


def overwrite(conn: Connection, folder: Row, instance: Row, *, only: str | None = None) -> int:
    """Give what is below a folder, and has other values, the folder's; how many items that was.

    `only`: where these are the values.
    """
    sql, args = f"{_DESCRIBED} AND item IN ({_BELOW})", [instance["template"], instance["data"]]
    args += tree_paths.below(folder)
    if only is not None:
        sql, args = f"{sql} AND data = ?", [*args, only]
    found = store.reader(conn)(sql, *args)
    for row in found:
        protection.record_coverage_before_metadata_change(conn, row["item"])
    conn.executemany(
        "UPDATE metadata_instance SET data = ?, version = version + 1, type_version = ? WHERE id = ?",
        ((instance["data"], instance["type_version"], row["id"]) for row in found),
    )
    return len(found)


def begin(conn: Connection, item: Row, instance: Row) -> None:
    """After a folder got metadata: if it cascades, what below has none gets it too."""
    if conn.execute(_POLICY, (item["id"], instance["template"])).fetchone() is not None:
        fill(conn, item, instance)


def follow(conn: Connection, item: Row, instance: Row, before: str) -> None:
    """After a change of a folder's metadata: what below has it from the folder is changed with it."""
    if conn.execute(_POLICY, (item["id"], instance["template"])).fetchone() is not None:
        overwrite(conn, item, instance, only=before)
