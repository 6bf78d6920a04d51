"""Many drives in long poll at one process: one of them looks for all."""

import itertools
import random

import pytest
import trio
import trio.testing

from cmsfs.service.events import event_watch, events
from cmsfs.service.storage import engine

MANY = 300
SECONDS = 60


@pytest.fixture
def queries(service, monkeypatch):
    """The point reads of the service, as they come."""
    found = []
    asked = service.db.rows

    def rows(sql, *args):
        found.append(sql)
        return asked(sql, *args)

    monkeypatch.setattr(service.db, "rows", rows)
    return found


@pytest.fixture
def watch(service):
    return event_watch.EventWatch(service, events.expire_collaborations)


class Drives:
    """Long polls of users, who note that they were told."""

    def __init__(self, service, watch, nursery):
        self._service, self._watch, self._nursery = service, watch, nursery
        self.told = []
        self._numbers = itertools.count()

    async def start(self, user, *, count=1, session=None):
        """`count` of them, which wait by now; the scope of each."""
        top = self._service.read(event_watch.LAST_EVENT)[0]["top"]
        scopes = [trio.CancelScope() for _ in range(count)]
        for scope in scopes:
            self._nursery.start_soon(self._wait, scope, user, top, session)
        await trio.testing.wait_all_tasks_blocked()
        return scopes

    async def _wait(self, scope, user, after, session):
        with scope:
            await self._watch.wait(user, after, session)
            self.told.append(user)

    async def until(self, count):
        with trio.fail_after(SECONDS):
            while len(self.told) < count:
                await trio.testing.wait_all_tasks_blocked()


@pytest.fixture
def drives(service, watch, nursery, monkeypatch):
    # What a process is not told it looks for; here nobody writes but itself.
    monkeypatch.setattr(event_watch, "POLL_SECONDS", 3600)
    return Drives(service, watch, nursery)


async def test_a_write_costs_a_few_reads_however_many_wait(api, uwe, drives, queries):
    await drives.start(api.user, count=MANY)
    await api.store.write(lambda conn: None)
    await trio.testing.wait_all_tasks_blocked()
    queries.clear()
    await uwe.folder("private")
    await trio.testing.wait_all_tasks_blocked(0.01)
    # Those of the request, and two of the look: what has ended, what is new.
    looks = [sql for sql in queries if "FROM event " in sql]
    assert len(looks) == 1, looks
    assert len(queries) < 30
    assert drives.told == []
    queries.clear()
    await api.folder("news")
    await drives.until(MANY)
    assert len([sql for sql in queries if "FROM event " in sql]) == 1
    assert len(queries) < 30


async def test_whoever_looked_for_all_may_leave(api, uwe, drives, nursery):
    """At any moment, and more than one at once."""
    dice = random.Random(1)
    left = 0
    for round in range(30):
        scopes = await drives.start(api.user, count=5)
        others = await drives.start(uwe.user, count=2)
        for scope in dice.sample(scopes, 3):  # the one that looks is the first
            scope.cancel()
        scopes[0].cancel()
        left = len([scope for scope in scopes if not scope.cancel_called])
        drives.told.clear()
        await api.folder(f"news {round}")
        await drives.until(left)
        await trio.testing.wait_all_tasks_blocked()
        assert drives.told == [api.user] * left
        for scope in others:
            scope.cancel()


async def test_news_between_two_looks_are_not_missed(api, service, watch):
    """Whoever comes is told of what was written a moment before or after, by whichever way."""
    for round in range(20):
        position = service.read(event_watch.LAST_EVENT)[0]["top"]
        with trio.fail_after(SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch.wait, api.user, position, None)
                nursery.start_soon(api.folder, f"f{round}")
                nursery.start_soon(watch.wait, api.user, position, None)


async def test_more_news_than_one_look_takes(api, uwe, drives, monkeypatch):
    monkeypatch.setattr(event_watch, "_BATCH", 2)
    await drives.start(api.user)
    for number in range(4):
        await uwe.folder(f"f{number}")

    def many(conn):
        row = conn.execute("SELECT * FROM item WHERE name = 'f0'").fetchone()
        for _ in range(7):
            events.record_for_users(conn, row, "ITEM_MODIFY", [uwe.user], by=uwe.user, now=api.store.now())
        events.record_for_users(conn, row, "ITEM_MODIFY", [api.user], by=uwe.user, now=api.store.now())

    await api.store.write(many)
    await drives.until(1)


async def test_they_wait_on_while_the_database_is_away(api, service, drives, monkeypatch):
    await drives.start(api.user, count=3)
    asked = service.db.rows

    def away(sql, *args):
        raise engine.DatabaseUnavailable("away")

    monkeypatch.setattr(event_watch, "RETRY_SECONDS", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr(service.db, "rows", away)
        service.notify_written()
        await trio.testing.wait_all_tasks_blocked()
        assert drives.told == []
    assert service.db.rows == asked
    await api.folder("news")
    await drives.until(3)


async def test_whoever_begins_to_wait_as_the_database_goes_is_to_come_again(
    api, service, monkeypatch, expect_log
):
    """The caller is known by then: it goes between that and the first look for news."""
    expect_log("the database is out of reach: away")
    asked = service.db.rows

    def rows(sql, *args):
        if sql == event_watch.LAST_EVENT:
            raise engine.DatabaseUnavailable("away")
        return asked(sql, *args)

    monkeypatch.setattr(service.db, "rows", rows)
    answer = await api.http.get("/events/wait", params={"stream_position": 0})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
