"""Changes that wait for each other are committed together, and each is its own."""

import contextvars
import sqlite3
import threading
import weakref

import pytest
import trio
import trio.testing

from cmsfs import sqlite
from cmsfs.service.storage import commit_queue

_WHO = contextvars.ContextVar("who", default="nobody")


class Counting:
    """A database that can be held up before a commit, and counts them."""

    def __init__(self, db):
        self.db = db
        self.commits = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.commits_fail = False

    async def write(self, txn, *, durable):
        assert durable

        def run(conn):
            result = txn(conn)
            self.begun.set()
            self.go_on.wait(20)
            self.commits += 1
            if self.commits_fail:
                raise OSError("no space")
            return result

        return await self.db.write(run, durable=True)


@pytest.fixture
async def db(tmp_path):
    schema = "CREATE TABLE done (what TEXT PRIMARY KEY, who TEXT);"
    async with sqlite.open_database(tmp_path / "db", schema) as opened:
        counting = Counting(opened)
        yield counting
        counting.go_on.set()


def put(what):
    def txn(conn):
        conn.execute("INSERT INTO done VALUES (?, ?)", (what, _WHO.get()))
        return what

    return txn


def done(db):
    return {(row["what"], row["who"]) for row in db.db.rows("SELECT * FROM done")}


async def test_who_waits_is_committed_with_the_others(db):
    commits = commit_queue.CommitQueue(db)
    failed = []

    async def write(what, who):
        _WHO.set(who)
        try:
            assert await commits.write(put(what)) == what
        except sqlite3.IntegrityError:
            failed.append(who)
        assert db.commits >= 1  # nobody is answered before

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, "a", "ada")
        await trio.to_thread.run_sync(db.begun.wait)
        for what, who in (("b", "bob"), ("b", "eve"), ("c", "carl"), ("d", "dora")):
            nursery.start_soon(write, what, who)
            await trio.testing.wait_all_tasks_blocked()
        db.go_on.set()
    assert failed == ["eve"]
    assert done(db) == {("a", "ada"), ("b", "bob"), ("c", "carl"), ("d", "dora")}
    assert db.commits == 2


async def test_who_is_cancelled_before_the_start_changes_nothing(db):
    commits = commit_queue.CommitQueue(db)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commits.write, put("a"))
            # Its thread has taken what waited so far.
            await trio.to_thread.run_sync(db.begun.wait)
            with trio.CancelScope() as waiting:
                waiting.cancel()
                await commits.write(put("b"))
            assert waiting.cancelled_caught
            db.go_on.set()
    assert not scope.cancelled_caught
    assert await commits.write(put("c")) == "c"
    assert {what for what, _ in done(db)} == {"a", "c"}


async def test_a_commit_that_fails_fails_everybody_in_it(db):
    commits = commit_queue.CommitQueue(db)
    failed = []

    async def write(what):
        try:
            await commits.write(put(what))
        except OSError:
            failed.append(what)

    async with trio.open_nursery() as nursery:
        for what in "abc":
            nursery.start_soon(write, what)
            await trio.testing.wait_all_tasks_blocked()
        db.commits_fail = True
        db.go_on.set()
    assert sorted(failed) == ["a", "b", "c"]
    assert done(db) == set()
    db.commits_fail = False
    assert await commits.write(put("d")) == "d"


async def test_results_do_not_outlive_their_callers_with_an_error_of_the_same_group(db):
    """A result may be a cursor, which keeps its database open: a garbage collection may be far away."""
    commits, results, errors = commit_queue.CommitQueue(db), [], []

    class Result:
        pass

    def fail(conn):
        raise sqlite3.IntegrityError("taken")

    async def write(txn):
        try:
            results.append(weakref.ref(await commits.write(txn)))
        except sqlite3.IntegrityError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits.write, put("first"))
        await trio.to_thread.run_sync(db.begun.wait)
        for txn in (fail, lambda conn: Result()):
            nursery.start_soon(write, txn)
        await trio.testing.wait_all_tasks_blocked()
        db.go_on.set()
    assert errors and [result() for result in results] == [None]
