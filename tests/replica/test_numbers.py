"""The inode numbers that programs see: the same wherever and whenever a file was first at its place."""

import functools
from pathlib import Path

from cmsfs.replica import database, kv_store, numbers, tree
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import ROOT, NodeKind, Remote
from cmsfs.sqlite import Connection, Database
from tests.replica.merge.test_bulk_insert import an_entry


def by_path(db: Database) -> dict[str, int | None]:
    rows = db.rows("SELECT ino, number FROM node WHERE kind = 'file' AND parent IS NOT NULL")
    return {tree.path(db, row["ino"]): row["number"] for row in rows}


def make(conn: Connection, folder: int, name: str, kind: NodeKind = NodeKind.FILE) -> int:
    return tree.insert(conn, folder, name, kind, now_ns=1)


async def apply(db: Database, *remotes: Remote) -> None:
    await db.write(lambda conn: apply_remote.apply(conn, remotes, generation=kv_store.generation(conn)))


async def test_a_file_has_one_number_however_it_came(db: Database, tmp_path: Path) -> None:
    """Made here; listed with its folder; listed before its folders; told of alone; in any order."""

    def txn(conn: Connection) -> None:
        inner = make(conn, make(conn, ROOT, "a", NodeKind.FOLDER), "b", NodeKind.FOLDER)
        for folder, name in ((inner, "f"), (inner, "g"), (ROOT, "f")):
            make(conn, folder, name)

    await db.write(txn)
    made = by_path(db)
    assert len(made) == len(set(made.values()) - {None}) == 3
    a, b = an_entry("folder", 10, "a"), an_entry("folder", 11, "b", 10)
    files = [an_entry("file", 1, "f", 11), an_entry("file", 2, "g", 11), an_entry("file", 3, "f")]
    pages: list[list[list[Remote]]] = [
        [[a, b, *files]],
        [[*files], [b], [a]],
        [[*files], [a], [b]],
        [[one] for one in (files[0], a, files[2], b, files[1])],
    ]
    for number, order in enumerate(pages):
        async with database.open_replica(tmp_path / f"{number}.db") as other:
            for page in order:
                await apply(other, *page)
            assert by_path(other) == made


async def test_no_two_files_have_one_number(db: Database) -> None:
    def txn(conn: Connection) -> list[int]:
        first = make(conn, ROOT, "f")
        tree.place(conn, first, ROOT, "f.1")
        return [first, make(conn, ROOT, "f")]

    rotated, fresh = await db.write(txn)
    assert by_path(db) == {"/f.1": numbers.of_place("", "f"), "/f": None}
    assert numbers.inodes_of(db, {numbers.of_place("", "f"), fresh}) == {rotated, fresh}


async def test_the_number_of_a_removed_file_is_given_again_unless_it_is_open(tmp_path: Path) -> None:
    async with database.open_replica(tmp_path / "r.db") as db:
        opened: set[int] = set()
        db.create_function("is_open", lambda ino: ino in opened, arguments=1)

        def again(conn: Connection) -> int:
            return make(conn, ROOT, "f")

        for is_open in (False, True):
            ino = await db.write(again)
            assert by_path(db) == {"/f": numbers.of_place("", "f")}
            opened |= {ino} if is_open else set()
            await db.write(functools.partial(tree.detach, ino=ino))
        await db.write(again)
        assert by_path(db) == {"/f": None}


async def test_numbers_are_no_rows_and_nobody_elses() -> None:
    found = {numbers.of_place(folder, name) for folder in ("", "a", "ä/\udcff") for name in ("f", "\udcff")}
    assert len(found) == 6
    assert all(numbers.FIRST <= number <= numbers.LAST < 1 << 62 for number in found)
