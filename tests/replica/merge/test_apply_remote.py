"""Applying what the service says: order does not matter, and local work survives."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmsfs.models.content import items
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, deletions, listing_diff, local_work
from cmsfs.replica.nodes import ROOT, Ino, NodeKind, Remote, remote_from_item
from cmsfs.replica.sharing import shares
from cmsfs.sqlite import Connection, Database


def an_item(kind: str, number: int, name: str, parent: int = 0, *, sequence: int = 1, **extra: Any) -> Remote:
    classes: dict[str, type[items.File | items.Folder | items.WebLink]] = {
        "file": items.File,
        "folder": items.Folder,
        "web_link": items.WebLink,
    }
    fields: dict[str, Any] = {
        "id": str(number),
        "name": name,
        "parent": {"type": "folder", "id": str(parent), "name": f"n{parent}"},
        "etag": str(sequence),
        "sequence_id": str(sequence),
        "item_status": "active",
        "content_modified_at": "2026-01-02T03:04:05.678901+00:00",
        "modified_at": "2026-01-02T03:04:05+00:00",
        **extra,
    }
    if kind == "file":
        fields.setdefault("sha1", f"{number:040d}")
        fields.setdefault("size", 10)
    return remote_from_item(classes[kind].model_validate(fields))


async def apply(db: Database, *remotes: Remote) -> list[Change]:
    return await db.write(
        lambda conn: apply_remote.apply(conn, remotes, generation=kv_store.generation(conn))
    )


def names(db: Database, path: str = "/") -> list[str]:
    ino: Ino = ROOT
    for part in filter(None, path.split("/")):
        node = tree.find_child(db, ino, part)
        assert node is not None, part
        ino = node.ino
    return sorted(node.name for node in tree.children(db, ino))


async def local_file(db: Database, name: str, *, parent: Ino = ROOT, sha1: str | None = None) -> Ino:
    def txn(conn: Connection) -> Ino:
        ino = tree.insert(conn, parent, name, NodeKind.FILE, now_ns=5)
        conn.execute("UPDATE node SET sha1 = ? WHERE ino = ?", (sha1, ino))
        conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (ino,))
        return ino

    return await db.write(txn)


async def test_items_arrive_in_any_order(db: Database) -> None:
    parts = [an_item("file", 7, "c.txt", 2), an_item("folder", 2, "b", 1), an_item("folder", 1, "a")]
    for number, order in enumerate(itertools.permutations(parts)):
        await db.write(lambda conn: conn.execute("DELETE FROM node WHERE ino > 2"))
        await apply(db, *order)
        assert names(db, "/a/b") == ["c.txt"], number


async def test_times_keep_their_microseconds(db: Database) -> None:
    await apply(db, an_item("file", 7, "f"))
    node = tree.find_child(db, ROOT, "f")
    assert node is not None
    assert node.mtime_ns == 1767323045_678901_000


async def test_an_older_description_is_ignored(db: Database) -> None:
    await apply(db, an_item("file", 7, "new", sequence=5))
    assert await apply(db, an_item("file", 7, "old", sequence=4)) == []
    assert names(db) == ["new"]


async def test_a_change_tells_what_the_kernel_must_drop(db: Database) -> None:
    await apply(db, an_item("file", 7, "a"))
    node = tree.find_child(db, ROOT, "a")
    assert node is not None
    changes = await apply(db, an_item("file", 7, "b", sequence=2, sha1="f" * 40))
    assert changes == [
        Change(ChangeKind.CONTENT, node.ino),
        Change(ChangeKind.ENTRY, node.ino, ROOT, "a"),
        Change(ChangeKind.ENTRY, node.ino, ROOT, "b"),
    ]


async def test_remote_rename_cycle_event_by_event(db: Database) -> None:
    await apply(db, an_item("file", 1, "a"), an_item("file", 2, "b"))
    await apply(db, an_item("file", 1, "b", sequence=2))
    await apply(db, an_item("file", 2, "a", sequence=2))
    assert names(db) == ["a", "b"]
    assert tree.find_remote(db, NodeKind.FILE, "1") == tree.find_child(db, ROOT, "b")


async def test_local_file_yields_name_to_remote(db: Database) -> None:
    ino = await local_file(db, "report.txt", sha1="a" * 40)
    await apply(db, an_item("file", 7, "Report.txt"))
    node = tree.find(db, ino)
    assert node is not None
    assert node.name.startswith("report (conflicted copy of ")
    assert node.name.endswith(").txt")
    assert tree.find_child(db, ROOT, "Report.txt") == tree.find_remote(db, NodeKind.FILE, "7")


async def test_equal_remote_file_is_adopted(db: Database) -> None:
    ino = await local_file(db, "report.txt", sha1=f"{7:040d}")
    await apply(db, an_item("file", 7, "report.txt"))
    assert tree.find_child(db, ROOT, "report.txt") == tree.find_remote(db, NodeKind.FILE, "7")
    node = tree.find(db, ino)
    assert node is not None
    assert node.remote_id == "7"
    assert db.rows("SELECT * FROM op") == []


async def test_concurrent_edits_keep_our_base(db: Database) -> None:
    await apply(db, an_item("file", 7, "f", sequence=1))
    node = tree.find_child(db, ROOT, "f")
    assert node is not None
    await db.write(
        lambda conn: conn.execute(
            "INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (node.ino,)
        )
    )
    await apply(db, an_item("file", 7, "f", sequence=2, sha1="f" * 40))
    after = tree.find(db, node.ino)
    assert after is not None
    assert (after.etag, after.base_sha1, after.sha1) == ("1", node.sha1, node.sha1)


async def test_complete_listing_removes_all_but_unsent(db: Database) -> None:
    await apply(
        db,
        an_item("folder", 1, "kept"),
        an_item("file", 2, "k", 1),
        an_item("folder", 3, "lost"),
        an_item("file", 4, "l", 3),
        an_item("folder", 5, "mine"),
        an_item("file", 6, "m", 5),
    )
    mine = tree.find_child(db, ROOT, "mine")
    assert mine is not None
    await local_file(db, "unsent", parent=mine.ino)

    def listing(conn: Connection) -> list[Change]:
        generation = kv_store.next_generation(conn)
        apply_remote.apply(
            conn, [an_item("folder", 1, "kept"), an_item("file", 2, "k", 1)], generation=generation
        )
        return listing_diff.remove(conn, listing_diff.unseen_below(conn, ROOT, generation), generation)

    changes = await db.write(listing)
    assert {change.name for change in changes} == {"l", "lost", "m"}
    assert names(db) == ["kept", "mine"]
    assert names(db, "/mine") == ["unsent"]
    # The folder that others deleted is made again, since something of ours has to go into it.
    assert [(row["ino"], row["kind"]) for row in db.rows("SELECT * FROM op WHERE kind = 'mkdir'")] == [
        (mine.ino, "mkdir")
    ]


async def test_a_comparison_and_other_news_remove_the_same_item(db: Database) -> None:
    await apply(db, an_item("file", 1, "f"), an_item("file", 2, "g"))
    generation = await db.write(kv_store.next_generation)
    missing = db.rows("SELECT ino FROM node WHERE remote_id IN ('1', '2') ORDER BY ino")
    inos = [row["ino"] for row in missing]
    # An event of the one is applied between the comparison and its end.
    await db.write(lambda conn: deletions.remove_gone(conn, inos[0], sequence=2))
    await db.write(tree.discard_detached)
    changes = await db.write(lambda conn: listing_diff.remove(conn, inos, generation))
    assert [change.name for change in changes] == ["g"]


async def test_nobody_shares_an_item_that_is_gone(db: Database) -> None:
    await apply(db, an_item("file", 1, "f"))
    node = tree.find_child(db, ROOT, "f")
    assert node is not None
    await db.write(lambda conn: deletions.remove_gone(conn, node.ino, sequence=2))
    await db.write(tree.discard_detached)
    assert await db.query(lambda conn: shares.top(conn, node.ino)) is None


async def test_missing_folder_stays_for_newer_contents(
    db: Database,
) -> None:
    """Its news are told by others; until then it is no folder of ours to be made again."""
    await apply(db, an_item("folder", 1, "d"), an_item("file", 2, "f", 1))

    def listing(conn: Connection) -> list[Change]:
        generation = kv_store.next_generation(conn)
        apply_remote.apply(conn, [an_item("file", 3, "g", 1)], generation=generation)
        return listing_diff.remove(conn, listing_diff.unseen_below(conn, ROOT, generation), generation)

    await db.write(listing)
    assert (names(db), names(db, "/d")) == (["d"], ["g"])
    assert db.rows("SELECT * FROM op") == []
    folder = tree.find_child(db, ROOT, "d")
    assert folder is not None
    assert folder.remote_id == "1"
    await db.write(lambda conn: deletions.remove_gone(conn, folder.ino, sequence=2))
    assert names(db) == []


@pytest.mark.parametrize("leaves", ["moved", "gone"])
async def test_renamed_item_regains_its_name(db: Database, leaves: str) -> None:
    await apply(db, an_item("folder", 1, "d"), an_item("file", 2, "F", 1, sequence=3))
    await apply(db, an_item("file", 4, "f", 1, sequence=2))
    assert names(db, "/d") == ["F (id 2)", "f"]
    holder = tree.find_remote(db, NodeKind.FILE, "4")
    assert holder is not None
    if leaves == "moved":
        changes = await apply(db, an_item("file", 4, "f", sequence=4))
    else:
        changes = await db.write(lambda conn: deletions.remove_gone(conn, holder.ino, sequence=4))
    assert names(db, "/d") == ["F"]
    assert {"F", "F (id 2)"} <= {change.name for change in changes}


async def test_listing_ignores_items_moved_elsewhere(db: Database) -> None:
    """Moved here, with new bytes and not sent yet: the folder's listing cannot show it."""
    await apply(db, an_item("folder", 1, "to"), an_item("file", 2, "f"), an_item("folder", 3, "d"))
    await apply(db, an_item("file", 4, "inside", 3))
    rows = db.rows("SELECT name, ino FROM node WHERE remote_id IS NOT NULL")
    inos = {row["name"]: row["ino"] for row in rows}

    def move_and_list(conn: Connection) -> list[Change]:
        for name in ("f", "d"):
            tree.place(conn, inos[name], inos["to"], name)
            conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'move', 0)", (inos[name],))
        conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (inos["f"],))
        generation = kv_store.next_generation(conn)
        return listing_diff.remove(conn, listing_diff.unseen_below(conn, inos["to"], generation), generation)

    assert await db.write(move_and_list) == []
    assert names(db, "/to") == ["d", "f"]
    assert names(db, "/to/d") == ["inside"]
    node = tree.find(db, inos["f"])
    assert node is not None
    assert node.remote_id == "2"


async def test_unsent_bytes_survive_lost_target_folder(db: Database) -> None:
    """The deletion was heard first."""
    await apply(db, an_item("folder", 1, "d"), an_item("file", 2, "f"), an_item("file", 3, "g"))
    rows = db.rows("SELECT name, ino FROM node WHERE remote_id IS NOT NULL")
    inos = {row["name"]: row["ino"] for row in rows}
    await db.write(lambda conn: deletions.remove_gone(conn, inos["d"], sequence=2))
    await db.write(
        lambda conn: conn.execute(
            "INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (inos["f"],)
        )
    )
    await apply(db, an_item("file", 2, "f", 1, sequence=2), an_item("file", 3, "g", 1, sequence=2))
    assert names(db) == ["f"]
    # Whether it is gone, too, is asked.
    assert [(one.kind, one.id) for one in local_work.ready_updates(db)] == []
    await db.write(lambda conn: conn.execute("DELETE FROM op"))
    (doubt,) = local_work.ready_updates(db)
    assert (doubt.id, local_work.is_settled(db, doubt)) == ("2", False)


@pytest.mark.parametrize("becomes", ["known", "deleted"])
async def test_unsent_bytes_stay_where_they_are_until_their_new_folder_is_known(
    db: Database, becomes: str
) -> None:
    """A folder that was created, took them in and was deleted since has no place for them to return to."""
    await apply(db, an_item("folder", 1, "d"))
    found = tree.find_child(db, ROOT, "d")
    assert found is not None
    await local_file(db, "new", parent=found.ino)
    await apply(db, an_item("folder", 1, "d", 9, sequence=2))
    assert names(db, "/d") == ["new"]
    (doubt,) = local_work.ready_updates(db)
    assert doubt.id == "1"
    if becomes == "known":
        await apply(db, an_item("folder", 9, "e"))
        await apply(db, an_item("folder", 1, "d", 9, sequence=2))
        assert names(db, "/e/d") == ["new"]
        return
    unknown = tree.find_remote(db, NodeKind.FOLDER, "9")
    assert unknown is not None
    await db.write(lambda conn: deletions.remove_gone(conn, unknown.ino))
    await db.write(lambda conn: deletions.remove_gone(conn, found.ino))
    assert names(db, "/d") == ["new"]


async def test_early_child_enters_restored_folder(db: Database) -> None:
    """In one page, or in several."""
    await apply(db, an_item("folder", 1, "d"), an_item("file", 2, "f", 1))
    found = tree.find_child(db, ROOT, "d")
    assert found is not None
    await db.write(lambda conn: deletions.remove_gone(conn, found.ino, sequence=2))
    assert names(db) == []
    await apply(db, an_item("file", 2, "f", 1))
    await apply(db, an_item("folder", 1, "d", sequence=3))
    assert names(db, "/d") == ["f"]


async def test_a_folder_made_anew_takes_what_came_back_early_under_names_that_are_taken(db: Database) -> None:
    folder, early = an_item("folder", 1, "a", sequence=3), an_item("file", 7, "c.txt", 1, sequence=3)
    await apply(db, an_item("folder", 1, "a"))
    gone = tree.find_child(db, ROOT, "a")
    assert gone is not None
    await db.write(lambda conn: tree.detach(conn, gone.ino))
    made = await db.write(lambda conn: tree.insert(conn, ROOT, "a", NodeKind.FOLDER, now_ns=5))
    ours = await local_file(db, "c.txt", parent=made, sha1="b" * 40)
    await apply(db, early)
    changes = await apply(db, folder)
    theirs = tree.find_remote(db, NodeKind.FILE, "7")
    assert theirs is not None
    assert tree.find_child(db, made, "c.txt") == theirs
    assert Change(ChangeKind.ENTRY, theirs.ino, made, "c.txt") in changes
    copy = tree.find(db, ours)
    assert copy is not None
    assert copy.name.startswith("c (")
    assert copy.parent == made


async def test_older_page_does_not_revive_file(db: Database) -> None:
    await apply(db, an_item("file", 7, "f", sequence=3))
    node = tree.find_child(db, ROOT, "f")
    assert node is not None

    def deleted(conn: Connection) -> None:
        tree.detach(conn, node.ino)
        deletions.mark_deleted(conn, node.ino)

    await db.write(deleted)
    await apply(db, an_item("file", 7, "f", sequence=3))
    assert names(db) == []
    await apply(db, an_item("file", 7, "f", sequence=5))
    assert names(db) == ["f"]


async def test_web_link_beside_file_of_same_name(db: Database) -> None:
    await apply(db, an_item("file", 1, "a.url"), an_item("web_link", 2, "a", url="https://example.com/"))
    assert names(db) == ["a (link 2).url", "a.url"]
    node = tree.find_remote(db, NodeKind.LINK, "2")
    assert node is not None
    assert node.size == len("[InternetShortcut]\nURL=https://example.com/\n")


async def test_a_web_link_that_made_way_gets_its_name_when_that_is_free(db: Database) -> None:
    first, second = (an_item("web_link", number, "a", url="https://example.com/") for number in (1, 2))
    await apply(db, first, second)
    assert names(db) == ["a (link 2).url", "a.url"]
    there = tree.find_remote(db, NodeKind.LINK, "1")
    assert there is not None
    await db.write(lambda conn: deletions.remove_gone(conn, there.ino))
    assert names(db) == ["a.url"]


NAMES = st.sampled_from(["a", "b", "A", "c"])
STEP = st.tuples(st.integers(1, 4), NAMES, st.sampled_from([0, 11, 12]))


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=12), order=st.randoms())
def test_the_tree_ends_as_the_last_descriptions_say(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, int]], order: Any
) -> None:
    """Files renamed and moved remotely, heard late and out of order: the newest description of each wins."""
    import sqlite3
    from importlib import resources

    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.row_factory = sqlite3.Row
    conn.create_function("note_fresh", 3, lambda ino, parent, name: None)
    schema = (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")
    conn.executescript(schema)
    places: dict[int, tuple[str, int]] = {}
    heard: list[Remote] = [an_item("folder", 11, "d1"), an_item("folder", 12, "d2")]
    for sequence, (number, name, parent) in enumerate(steps, start=1):
        taken = {(p, n.casefold()) for k, (n, p) in places.items() if k != number}
        if (parent, name.casefold()) in taken:
            continue  # the service would not have allowed it
        places[number] = (name, parent)
        heard.append(an_item("file", number, name, parent, sequence=sequence))
    order.shuffle(heard)
    for one in heard:
        apply_remote.apply(conn, [one], generation=1)
    for number, (name, parent) in places.items():
        row = conn.execute(
            "SELECT * FROM node WHERE kind = 'file' AND remote_id = ?", (str(number),)
        ).fetchone()
        folder = conn.execute("SELECT remote_id FROM node WHERE ino = ?", (row["parent"],)).fetchone()
        assert (folder["remote_id"], row["name"]) == (str(parent), name)
    conn.close()
