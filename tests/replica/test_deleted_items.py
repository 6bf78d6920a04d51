"""Deletions that are remembered."""

import pytest

from cmsfs.replica.nodes import NodeKind
from cmsfs.replica.rows import deleted_items
from cmsfs.sqlite import Connection, Database


async def test_only_the_newest_deletions_are_remembered(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_items, "REMEMBERED", 2)

    def note(conn: Connection) -> None:
        for number, item in enumerate("abac"):
            deleted_items.note(conn, (NodeKind.FILE, item), number)

    await db.write(note)
    found = deleted_items.all_of(db)
    assert list(found.items()) == [((NodeKind.FILE, "a"), 2), ((NodeKind.FILE, "c"), 3)]


async def test_forgotten_deletion_is_not_remembered(db: Database) -> None:
    file, folder = (NodeKind.FILE, "1"), (NodeKind.FOLDER, "1")
    await db.write(lambda conn: deleted_items.note(conn, file, 3))
    await db.write(lambda conn: deleted_items.note(conn, folder, 4))
    await db.write(lambda conn: deleted_items.forget(conn, file))
    assert deleted_items.all_of(db) == {folder: 4}
    await db.write(deleted_items.forget_all)
    assert deleted_items.all_of(db) == {}
