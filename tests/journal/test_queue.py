"""The journal as a queue: what waits for what."""

from functools import partial
from typing import Any

import pytest

from cmsfs.journal import deadlocks, ops, queue
from cmsfs.journal.ops import OpKind
from cmsfs.replica import tree
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.sqlite import Connection, Database


def never_busy(ino: Ino) -> bool:
    return False


class Journal:
    """A tree and its journal, driven in short calls; `send` stands for what the push does."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._ids = iter(range(100, 10**6))

    async def known(self, name: str, parent: Ino = ROOT, kind: NodeKind = NodeKind.FILE) -> Ino:
        """A node that the service has."""

        def txn(conn: Connection) -> Ino:
            ino = tree.insert(conn, parent, name, kind, now_ns=0)
            self._agree(conn, ino)
            return ino

        return await self.db.write(txn)

    async def new(self, name: str, parent: Ino = ROOT, kind: NodeKind = NodeKind.FILE) -> Ino:
        """A node that the service is still to hear of."""

        def txn(conn: Connection) -> Ino:
            ino = tree.insert(conn, parent, name, kind, now_ns=0)
            ops.record(conn, ino, OpKind.MKDIR if kind is NodeKind.FOLDER else OpKind.UPLOAD, due_ns=0)
            return ino

        return await self.db.write(txn)

    async def move(self, ino: Ino, parent: Ino, name: str) -> None:
        def txn(conn: Connection) -> None:
            tree.detach(conn, ino)
            tree.place(conn, ino, parent, name)
            ops.record_move(conn, tree.get(conn, ino), due_ns=0)

        await self.db.write(txn)

    async def remove(self, ino: Ino) -> None:
        def txn(conn: Connection) -> None:
            tree.detach(conn, ino)
            ops.record_removal(conn, tree.get(conn, ino), due_ns=0)

        await self.db.write(txn)

    def _agree(self, conn: Connection, ino: Ino) -> None:
        node = tree.get(conn, ino)
        folder = tree.get(conn, node.parent).remote_id if node.parent else None
        conn.execute(
            "UPDATE node SET remote_id = coalesce(remote_id, ?), base_parent = ?, base_name = name,"
            " base_key = name_key WHERE ino = ?",
            (str(next(self._ids)), folder, ino),
        )

    async def claim(self, busy: Any = never_busy) -> queue.Task | None:
        """The first operation that may go now."""
        for op in queue.candidates(self.db, now_ns=1):
            task = await self.db.write(partial(queue.claim, seq=op.seq, busy=busy))
            if task is not None:
                return task
        return None

    async def finish(self, task: queue.Task) -> bool:
        def txn(conn: Connection) -> bool:
            if task.op.kind is OpKind.TRASH:
                conn.execute("UPDATE node SET base_parent = NULL WHERE ino = ?", (task.node.ino,))
            else:
                self._agree(conn, task.node.ino)
            return queue.finish(conn, task.op)

        return await self.db.write(txn)

    async def send_all(self) -> list[tuple[str, str]]:
        """Send until nothing may go; what was sent, in order."""
        sent = []
        while (task := await self.claim()) is not None:
            sent.append((task.op.kind.value, task.node.name))
            await self.finish(task)
        return sent


@pytest.fixture
def journal(db: Database) -> Journal:
    return Journal(db)


async def test_folders_come_before_what_is_in_them(journal: Journal) -> None:
    outer = await journal.new("outer", kind=NodeKind.FOLDER)
    file = await journal.new("file", ROOT)
    inner = await journal.new("inner", outer, kind=NodeKind.FOLDER)
    await journal.move(file, inner, "file")
    assert await journal.send_all() == [("mkdir", "outer"), ("mkdir", "inner"), ("upload", "file")]


async def test_a_name_is_free_before_it_is_taken(journal: Journal) -> None:
    old = await journal.known("a")
    await journal.remove(old)
    await journal.new("A")
    assert await journal.send_all() == [("trash", "a"), ("upload", "A")]


async def test_folder_is_deleted_after_its_contents(journal: Journal) -> None:
    folder = await journal.known("d", kind=NodeKind.FOLDER)
    kept, lost = await journal.known("kept", folder), await journal.known("lost", folder)
    # The folder's deletion has been due for longer than that of its content.
    await journal.remove(folder)
    await journal.move(kept, ROOT, "kept")
    await journal.remove(lost)
    assert (await journal.send_all())[-1] == ("trash", "d")


async def test_exchanged_names_use_a_temporary_name(journal: Journal) -> None:
    a, b = await journal.known("a"), await journal.known("b")
    await journal.move(a, ROOT, "x")
    await journal.move(b, ROOT, "a")
    await journal.move(a, ROOT, "b")
    assert await journal.claim() is None
    task = await journal.db.write(deadlocks.step_aside)
    assert task is not None
    assert task.node.ino in (a, b)

    def aside(conn: Connection) -> None:
        conn.execute("UPDATE node SET base_name = 't', base_key = 't' WHERE ino = ?", (task.node.ino,))
        queue.retry(conn, task.op, not_before_ns=0, error="stepped aside")

    await journal.db.write(aside)
    assert len(await journal.send_all()) == 2
    assert await journal.db.write(deadlocks.step_aside) is None


async def test_replacement_leaves_the_deleted_folder_under_a_temporary_name(journal: Journal) -> None:
    replaced = await journal.known("p", kind=NodeKind.FOLDER)
    inner = await journal.known("q", replaced, kind=NodeKind.FOLDER)
    await journal.move(inner, ROOT, "r")
    await journal.remove(replaced)
    await journal.move(inner, ROOT, "p")
    assert await journal.claim() is None
    task = await journal.db.write(deadlocks.step_aside)
    assert task is not None
    assert task.node.ino == inner
    assert task.parent is not None
    root_id = task.parent.remote_id

    def aside(conn: Connection) -> None:
        apply_remote.note_remote_name(conn, inner, "t", root_id)
        queue.give_back(conn, task.op, not_before_ns=0)

    await journal.db.write(aside)
    assert await journal.db.write(deadlocks.step_aside) is None
    assert await journal.send_all() == [("trash", "p"), ("move", "p")]


async def test_file_leaves_the_deleted_folder_for_one_that_replaces_it(journal: Journal) -> None:
    """The new folder waits for the name of the deleted one, so the file goes to the folder above it."""
    deleted = await journal.known("p", kind=NodeKind.FOLDER)
    file = await journal.known("f", deleted)
    await journal.move(file, ROOT, "f")
    await journal.remove(deleted)
    new = await journal.new("p", kind=NodeKind.FOLDER)
    await journal.move(file, await journal.new("q", new, kind=NodeKind.FOLDER), "f")
    assert await journal.claim() is None
    task = await journal.db.write(deadlocks.step_aside)
    assert task is not None and task.node.ino == file
    assert task.parent is not None and task.parent.ino == ROOT


async def test_deletion_of_needed_bytes_steps_aside(journal: Journal) -> None:
    old = await journal.known("a")
    await journal.remove(old)
    new = await journal.new("a")

    def same_bytes(conn: Connection) -> None:
        conn.execute("UPDATE node SET base_sha1 = 'x' WHERE ino = ?", (old,))
        conn.execute("UPDATE node SET sha1 = 'x' WHERE ino = ?", (new,))

    await journal.db.write(same_bytes)
    assert await journal.claim() is None
    task = await journal.db.write(deadlocks.step_aside)
    assert task is not None
    assert (task.op.kind, task.node.ino) == (ops.OpKind.TRASH, old)

    def aside(conn: Connection) -> None:
        apply_remote.note_remote_name(conn, old, "t")
        queue.give_back(conn, task.op, not_before_ns=0)

    await journal.db.write(aside)
    assert await journal.db.write(deadlocks.step_aside) is None
    assert await journal.send_all() == [("upload", "a"), ("trash", "a")]


async def test_deletion_does_not_wait_for_a_held_upload_of_its_bytes(journal: Journal) -> None:
    """Else whoever takes the name would wait for a decision about another file."""
    old = await journal.known("a")
    await journal.remove(old)
    backup = await journal.new("a~")
    await journal.new("a")

    def same_bytes(conn: Connection) -> None:
        conn.execute("UPDATE node SET base_sha1 = 'x' WHERE ino = ?", (old,))
        conn.execute("UPDATE node SET sha1 = 'x' WHERE ino = ?", (backup,))

    await journal.db.write(same_bytes)
    task = await journal.claim()
    assert task is not None and task.node.ino == backup
    await journal.db.write(lambda conn: queue.hold(conn, task.op, error="lost"))
    assert await journal.send_all() == [("trash", "a"), ("upload", "a")]


async def test_a_file_that_was_removed_wants_nobody_out_of_the_way(journal: Journal) -> None:
    old = await journal.known("a")
    await journal.remove(old)
    new = await journal.new("a")

    def same_bytes(conn: Connection) -> None:
        conn.execute("UPDATE node SET base_sha1 = 'x' WHERE ino = ?", (old,))
        conn.execute("UPDATE node SET sha1 = 'x' WHERE ino = ?", (new,))
        # Its upload is still in the journal.
        tree.detach(conn, new)

    await journal.db.write(same_bytes)
    assert await journal.db.write(deadlocks.step_aside) is None


async def test_deletions_in_nobodys_way_are_not_looked_at_one_by_one(journal: Journal) -> None:
    for number in range(50):
        await journal.remove(await journal.known(f"old {number}"))
    await journal.new("new")
    statements: list[str] = []

    def traced(conn: Connection) -> None:
        conn.set_trace_callback(statements.append)
        assert deadlocks.step_aside(conn) is None
        conn.set_trace_callback(None)

    await journal.db.write(traced)
    assert len(statements) == 2


async def test_swapped_nested_folders_make_no_cycle(journal: Journal) -> None:
    outer = await journal.known("outer", kind=NodeKind.FOLDER)
    inner = await journal.known("inner", outer, kind=NodeKind.FOLDER)
    await journal.move(inner, ROOT, "inner")
    await journal.move(outer, inner, "outer")
    assert await journal.send_all() == [("move", "inner"), ("move", "outer")]


async def test_a_file_open_for_writing_waits(journal: Journal) -> None:
    ino = await journal.new("f")
    assert await journal.claim(lambda node: node.ino == ino) is None
    assert await journal.claim() is not None


async def test_change_during_upload_is_sent_again(journal: Journal) -> None:
    ino = await journal.new("f")
    task = await journal.claim()
    assert task is not None
    await journal.db.write(lambda conn: ops.record(conn, ino, OpKind.UPLOAD, due_ns=0))
    assert await journal.claim() is None
    assert not await journal.finish(task)
    again = await journal.claim()
    assert again is not None
    assert await journal.finish(again)
    assert await journal.claim() is None


async def test_file_deleted_during_upload_is_deleted(journal: Journal) -> None:
    ino = await journal.new("f")
    task = await journal.claim()
    assert task is not None
    await journal.remove(ino)
    assert await journal.claim() is None
    await journal.finish(task)
    assert await journal.send_all() == [("trash", "f")]


async def test_held_operation_waits_for_decision(journal: Journal) -> None:
    ino = await journal.new("f")
    task = await journal.claim()
    assert task is not None
    await journal.db.write(lambda conn: queue.hold(conn, task.op, error="policy"))
    assert await journal.claim() is None
    assert queue.unfinished(journal.db) == 0
    assert [op.error for op in queue.listed(journal.db)] == ["policy"]
    await journal.db.write(lambda conn: ops.record(conn, ino, OpKind.UPLOAD, due_ns=0))
    assert await journal.claim() is not None


async def test_a_move_back_is_no_move(journal: Journal) -> None:
    ino = await journal.known("f")
    await journal.move(ino, ROOT, "g")
    await journal.move(ino, ROOT, "f")
    assert await journal.send_all() == []


async def test_settle_time_does_not_shorten_backoff(journal: Journal) -> None:
    await journal.new("f")
    task = await journal.claim()
    assert task is not None
    await journal.db.write(lambda conn: queue.retry(conn, task.op, not_before_ns=50, error="later"))
    assert queue.next_due(journal.db) == 50
    assert await journal.claim() is None
