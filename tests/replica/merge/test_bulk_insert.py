"""A page of new items at once comes to the same as one item after the other."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmsfs.models.content import entries, items
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import ROOT, NodeKind, Remote, remote_from_item
from cmsfs.sqlite import Connection, Database

CLASSES: dict[str, type[items.File | items.Folder | items.WebLink]] = {
    "file": items.File,
    "folder": items.Folder,
    "web_link": items.WebLink,
}


def fields(kind: str, number: int, name: str, parent: int = 0, **extra: Any) -> dict[str, Any]:
    found = {
        "type": kind,
        "id": str(number),
        "name": name,
        "parent": {"type": "folder", "id": str(parent), "name": f"n{parent}"},
        "etag": "1",
        "sequence_id": "1",
        "item_status": "active",
        "created_at": "2026-01-02T03:04:05-08:00",
        "modified_at": "2026-01-02T03:04:05+00:00",
        "owned_by": {"type": "user", "id": "7", "login": "ada@example.com"},
        "description": "",
        "tags": ["a"] if number % 2 else [],
        **extra,
    }
    if kind == "file":
        found |= {"sha1": f"{number:040d}", "size": 10, "file_version": {"type": "file_version", "id": "5"}}
    if kind == "web_link":
        found |= {"url": "https://example.com/"}
    return found


def an_entry(kind: str, number: int, name: str, parent: int = 0, **extra: Any) -> Remote:
    text = json.dumps({"entries": [fields(kind, number, name, parent, **extra)]})
    return remote_from_item(entries.EntryPage.model_validate_json(text.encode()).entries[0])


async def apply(db: Database, *remotes: Remote) -> list[Change]:
    return await db.write(
        lambda conn: apply_remote.apply(conn, remotes, generation=kv_store.generation(conn))
    )


def shape(conn: Connection) -> set[tuple[Any, ...]]:
    """The tree without numbers of nodes: each row by what the service calls it and the folder it is in."""
    rows = conn.execute(
        "SELECT n.kind, n.remote_id, n.name, above.remote_id, n.size, n.mtime_ns, n.sha1, n.base_sha1,"
        " n.etag, n.version, n.base_parent, n.base_name, n.base_key, n.name_key, n.sequence, n.item, n.seen,"
        " n.mode"
        " FROM node AS n LEFT JOIN node AS above ON above.ino = n.parent WHERE n.ino > 2"
    )
    return {tuple(row) for row in rows}


@pytest.mark.parametrize("kind", CLASSES)
def test_lean_entry_equals_full_item(kind: str) -> None:
    given = fields(kind, 5, "x")
    lean = an_entry(kind, 5, "x")
    full = remote_from_item(CLASSES[kind].model_validate(given))
    assert lean._replace(item=full.item) == full
    kept = json.loads(lean.json)
    assert kept["owned_by"] == given["owned_by"]
    assert kept["tags"] == ["a"]
    assert kept.get("url") == given.get("url")
    # What says nothing takes no room.
    assert "description" not in kept


PAGE = [
    ("folder", 1, "a", 0),
    ("folder", 2, "b", 1),
    ("folder", 3, "c", 2),
    ("file", 4, "f", 3),
    ("file", 5, "f", 9),  # in a folder that is on no page
    ("web_link", 6, "l", 1),
    ("file", 7, "F", 0),
    ("file", 4, "f", 3),  # shown twice
]


@given(st.permutations(PAGE), st.integers(0, len(PAGE)))
@settings(max_examples=60, deadline=None)
def test_in_any_order_and_however_cut(page: list[tuple[str, int, str, int]], cut: int) -> None:
    import sqlite3
    from importlib import resources

    schema = (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")
    found = []
    for parts in ([page], [page[:cut], page[cut:]], [[one] for one in page]):
        conn = sqlite3.connect(":memory:")
        conn.row_factory = sqlite3.Row
        conn.create_function("note_fresh", 3, lambda ino, parent, name: None)
        conn.executescript(schema)
        for part in parts:
            apply_remote.apply(conn, [an_entry(*one) for one in part], generation=3)
        found.append(shape(conn))
        conn.close()
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 8


async def test_of_names_that_clash_one_makes_way(db: Database) -> None:
    page = [an_entry("file", 1, "Readme"), an_entry("file", 2, "README"), an_entry("file", 3, "x")]
    told = await apply(db, *page)
    # Somebody had this name before the page was through.
    assert any(change.name in ("Readme", "README") and not change.is_new for change in told)
    names = sorted(node.name for node in tree.children(db, ROOT))
    assert len(names) == 3
    assert "x" in names
    assert sum("(id " in name for name in names) == 1


async def test_identical_local_item_is_adopted(db: Database) -> None:
    def make(conn: Connection) -> int:
        ino = tree.insert(conn, ROOT, "docs", NodeKind.FOLDER, now_ns=5)
        conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'mkdir', 0)", (ino,))
        return ino

    ino = await db.write(make)
    await apply(db, an_entry("folder", 1, "docs"), an_entry("file", 2, "inside", 1), an_entry("file", 3, "y"))
    node = tree.find(db, ino)
    assert node is not None
    assert node.remote_id == "1"
    assert [child.name for child in tree.children(db, ino)] == ["inside"]
    assert db.rows("SELECT * FROM op") == []


async def test_every_new_name_is_told_once(db: Database) -> None:
    page = [an_entry("folder", 1, "a"), an_entry("file", 2, "b", 1)]
    told = await apply(db, *page)
    assert [(change.what, change.name) for change in told] == [
        (ChangeKind.ENTRY, "a"),
        (ChangeKind.ENTRY, "b"),
    ]
    assert all(change.is_new for change in told)
    for change, remote_id in zip(told, ("1", "2"), strict=True):
        node = tree.find(db, change.ino)
        assert node is not None
        assert (node.remote_id, node.parent) == (remote_id, change.parent)
    assert await apply(db, *page) == []


async def test_numbers_are_never_used_twice(db: Database) -> None:
    await apply(db, an_entry("file", 1, "a"), an_entry("file", 2, "b"))
    before = [node.ino for node in tree.children(db, ROOT)]
    await db.write(lambda conn: conn.execute("DELETE FROM node WHERE ino > 2"))
    await apply(db, an_entry("file", 3, "c"))
    later = await db.write(lambda conn: tree.insert(conn, ROOT, "d", NodeKind.FILE, now_ns=0))
    inos = [node.ino for node in tree.children(db, ROOT)]
    assert min(inos) > max(before)
    assert later == max(inos)
    assert len({*before, *inos}) == len(list(itertools.chain(before, inos)))
