"""A drive that lists and hears by search alone, whose index lags minutes behind and in any order."""

from datetime import UTC, datetime, timedelta

import pytest

from cmsfs import config
from cmsfs.sqlite import Connection
from daemon.pull import search_feed
from tests.support.daemon_drive import Drive, Remote
from tests.support.live_service import LiveService


@pytest.fixture
def settings(settings: config.Settings) -> config.Settings:
    return settings.model_copy(update={"profile": "specification"})


@pytest.fixture
async def live(live: LiveService) -> LiveService:
    live.knows_not = True
    return live


async def changed_ago(other: Remote, name: str, minutes: int) -> None:
    """The service made and changed it so long ago."""
    moment = datetime.now(UTC) - timedelta(minutes=minutes)
    micros = int(moment.timestamp() * 10**6)

    def txn(conn: Connection) -> None:
        conn.execute("UPDATE item SET created_at = ?1, modified_at = ?1 WHERE name = ?2", (micros, name))

    await other.store.write(txn)


@pytest.fixture
def looks_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_feed, "DEEP_SECONDS", 0.0)


async def test_what_the_index_shows_late_arrives(
    drive: Drive, other: Remote, live: LiveService, looks_deep: None
) -> None:
    await other.file("first", b"x")
    assert await drive.names() == ["first"]
    await other.file("late", b"x")
    await changed_ago(other, "late", 8)
    live.late = {"late"}
    await other.file("early", b"x")
    await drive.poll()
    assert await drive.names() == ["early", "first"]
    live.late = set()
    await drive.poll()
    assert await drive.names() == ["early", "first", "late"]


async def test_what_we_made_stays_while_the_index_lacks_it(
    drive: Drive, other: Remote, live: LiveService
) -> None:
    assert await drive.names() == []
    live.late = {"ours"}
    await drive.write("ours", b"x")
    await drive.sync()
    await drive.agents.reconciler.once(full=True)
    await drive.poll()
    assert (await drive.names(), await other.paths(), drive.ops()) == (["ours"], ["ours"], [])


async def test_a_deletion_that_shows_late_arrives(
    drive: Drive, other: Remote, live: LiveService, looks_deep: None
) -> None:
    number = await other.file("a", b"x")
    await other.file("b", b"x")
    assert await drive.names() == ["a", "b"]
    await drive.poll()
    live.late = {"a"}
    await other.client.items.delete("file", number)
    await drive.poll()
    assert await drive.names() == ["a", "b"]
    live.late = set()
    await drive.poll()
    assert await drive.names() == ["b"]
