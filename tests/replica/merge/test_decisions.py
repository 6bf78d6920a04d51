"""What becomes of news of an item: every combination is decided, and none costs local work."""

import itertools

import pytest

from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.merge import apply_remote, decisions, local_work
from cmsfs.replica.merge.decisions import VERDICTS, Local, News, Verdict
from cmsfs.replica.nodes import NodeKind, Remote, remote_from_item
from cmsfs.replica.rows import node_rows, op_rows
from cmsfs.sqlite import Connection, Database

BYTES = (News.MY_BYTES, News.THEIR_BYTES, News.WHOSE_BYTES)


def a_file(*, name: str = "a", sequence: int = 1, sha1: str = "1" * 40) -> Remote:
    return remote_from_item(
        items.File.model_validate(
            {
                "id": "5",
                "name": name,
                "parent": {"type": "folder", "id": "0", "name": ""},
                "etag": str(sequence),
                "sequence_id": str(sequence),
                "item_status": "active",
                "sha1": sha1,
                "size": 10,
            }
        )
    )


def test_every_combination_has_a_verdict():
    assert set(VERDICTS) == set(itertools.product(Local, News))


def test_every_verdict_is_given():
    assert set(VERDICTS.values()) == set(Verdict)


@pytest.mark.parametrize("news", News)
def test_unsent_bytes_and_deletions_survive_all_news(news: News):
    assert VERDICTS[Local.TRASHED, news] in (Verdict.IGNORE, Verdict.ASIDE)
    assert VERDICTS[Local.UNLINKED, news] is Verdict.BESIDE
    assert (VERDICTS[Local.UNSENT, news] is Verdict.KEEP) == (news in BYTES)


@pytest.mark.parametrize("news", BYTES)
@pytest.mark.parametrize("local", [Local.OPEN, Local.RUNNING])
def test_an_open_inode_never_gets_other_bytes(local: Local, news: News):
    assert VERDICTS[local, news] in (Verdict.PART, Verdict.PART_DISARM, Verdict.ASIDE)


@pytest.mark.parametrize(
    ("local", "moved", "changed", "rewritten"),
    [
        (Local.CLEAN, Verdict.PLACE, Verdict.TAKE, Verdict.TAKE),
        (Local.PROGRAM, Verdict.PLACE, Verdict.TAKE, Verdict.DISARM),
        (Local.UNSENT, Verdict.PLACE, Verdict.TAKE, Verdict.KEEP),
        (Local.TRASHED, Verdict.IGNORE, Verdict.ASIDE, Verdict.ASIDE),
        (Local.UNLINKED, Verdict.BESIDE, Verdict.BESIDE, Verdict.BESIDE),
    ],
)
async def test_a_node_is_told_by_its_rows(
    db: Database, local: Local, moved: Verdict, changed: Verdict, rewritten: Verdict
):
    def txn(conn: Connection) -> list[Verdict]:
        apply_remote.apply(conn, [a_file()], generation=0)
        node = tree.remote_at(conn, NodeKind.FILE, "5")
        assert node is not None
        if local is Local.PROGRAM:
            node_rows.set_attributes(conn, node.ino, mode=0o755, atime_ns=None, mtime_ns=None, ctime_ns=0)
        elif local is Local.UNSENT:
            op_rows.record(conn, node.ino, "upload", due_ns=0)
        elif local is Local.TRASHED:
            tree.detach(conn, node.ino)
            op_rows.record(conn, node.ino, "trash", due_ns=0)
        elif local is Local.UNLINKED:
            draft = conn.execute("INSERT INTO draft DEFAULT VALUES").lastrowid
            node_rows.set_draft(conn, node.ino, draft or 0)
            tree.detach(conn, node.ino)
        news = (a_file(name="b"), a_file(sequence=2), a_file(sequence=2, sha1="2" * 40))
        pending = tree.pending(conn, node.ino)
        return [decisions.decide(conn, tree.get(conn, node.ino), one, pending) for one in news]

    assert await db.write(txn) == [moved, changed, rewritten]


async def test_news_of_what_is_known_are_none(db: Database):
    def txn(conn: Connection) -> list[Verdict]:
        unknown = decisions.decide(conn, None, a_file(), set())
        apply_remote.apply(conn, [a_file()], generation=0)
        return [unknown, decisions.decide(conn, tree.remote_at(conn, NodeKind.FILE, "5"), a_file(), set())]

    assert await db.write(txn) == [Verdict.APPEAR, Verdict.IGNORE]


async def test_a_number_that_is_given_a_second_time_is_something_else(db: Database):
    """As by a service that came back from a backup: what ours was laid over is not there any more."""

    def txn(conn: Connection) -> tuple[Verdict, str | None, str | None]:
        apply_remote.apply(conn, [a_file()], generation=0)
        node = tree.remote_at(conn, NodeKind.FILE, "5")
        assert node is not None
        taken = decisions.decide(conn, node, a_file(sha1="2" * 40), set())
        op_rows.record(conn, node.ino, "upload", due_ns=0)
        apply_remote.apply(conn, [a_file(sha1="2" * 40)], generation=0)
        after = tree.get(conn, node.ino)
        return taken, after.etag, after.base_sha1

    # The upload that waits is refused, and decided as a conflict.
    assert await db.write(txn) == (Verdict.TAKE, apply_remote.NO_ETAG, "1" * 40)
    assert local_work.count_deferred(db) == 1
