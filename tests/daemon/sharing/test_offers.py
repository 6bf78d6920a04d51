"""`shared = "ask"`: what others share is shown when the person says so, and not before."""

import pytest

from cmsfs import config, errors
from cmsfs.replica.nodes import ROOT
from daemon.content.search import RemoteSearch
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import share
from tests.support.network import Network
from tests.support.shared_team import SHELF


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events", shared="ask")


async def _give(ben: Remote, user: int, name: str = "Team", above: str = "0") -> tuple[str, str]:
    """A shared folder with a file in it; its id, and that of the collaboration."""
    folder = await ben.folder(name, above)
    await ben.file("plan.txt", b"Ben's plan", folder)
    return folder, await share(ben, "folder", folder, "editor", user)


def _waiting(drive: Drive) -> list[tuple[str, str]]:
    return [(one.name, one.owner) for one in drive.agents.offers.undecided() if not one.declined]


async def _decide(drive: Drive, *words: str, accept: bool = True) -> str:
    return str((await drive.agents.decide_offers(list(words), accept)).message)


@pytest.mark.parametrize("feed", ["events", "search"])
async def test_it_is_shown_when_it_is_accepted(
    starting: Starting, ben: Remote, other: Remote, user: int, feed: str
) -> None:
    await other.file("mine.txt", b"mine")
    await _give(ben, user)
    async with starting(feed=feed) as drive:
        assert await drive.names() == ["mine.txt"]
        await _give(ben, user, "Club")
        await drive.poll()
        assert await drive.names() == ["mine.txt"]
        assert _waiting(drive) == [("Club", "Ben Tester"), ("Team", "Ben Tester")]
        assert (await drive.agents.status()).offers == 2
        assert [one.name for one in (await drive.agents.conflicts()).offers] == ["Club", "Team"]
        said = await _decide(drive, "Team")
        assert said == f"Team is in /{SHELF}/Team."
        assert await drive.names(SHELF) == ["Team"]
        assert await drive.read(f"{SHELF}/Team/plan.txt") == b"Ben's plan"
        assert _waiting(drive) == [("Club", "Ben Tester")]


async def test_offered_item_takes_no_name(
    starting: Starting, ben: Remote, other: Remote, user: int, network: Network
) -> None:
    folder, _ = await _give(ben, user, SHELF)
    await ben.file("more.txt", b"more", await ben.folder("Sub", folder))
    async with starting() as drive:
        agents = drive.agents
        # Before anything is known, and afterwards.
        search = await RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health).begin(
            "plan OR more"
        )
        assert list(await search.more()) == []
        mine = await drive.mkdir(SHELF)
        await drive.sync()
        await ben.file("later.txt", b"later", folder)
        await drive.poll()
        assert await drive.names() == [SHELF]
        assert await drive.ino(SHELF) == mine
        assert await drive.names(SHELF) == []
        assert network.count("GET", "/content") == network.count("GET", "/representations") == 0
        search = await RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health).begin("plan")
        assert list(await search.more()) == []
        await _decide(drive, folder)
        shelf = f"{SHELF} (from others)/{SHELF}"
        assert await drive.names(shelf) == ["Sub", "later.txt", "plan.txt"]
        assert await drive.read(f"{shelf}/Sub/more.txt") == b"more"
        search = await RemoteSearch(drive.db, agents.client, agents.hydrator, agents.health).begin("plan")
        assert [one.path for one in await search.more()] == [f"{shelf}/plan.txt"]


async def test_declined_offer_is_hidden(starting: Starting, ben: Remote, user: int) -> None:
    folder, given = await _give(ben, user)
    async with starting() as drive:
        await drive.names()
        assert drive.agents.sharing.news()[0] == 1
        await _decide(drive, "Team", accept=False)
        assert _waiting(drive) == []
        assert drive.agents.sharing.news()[0] == 1
    async with starting() as drive:
        await ben.client.items.update("folder", folder, name="Club")
        await drive.poll()
        assert await drive.names() == []
        assert _waiting(drive) == []
        assert drive.agents.sharing.news() == (0, "")
        # Shared anew, it is asked about again.
        await ben.client.collaborations.delete(given)
        await drive.poll()
        await share(ben, "folder", folder, "viewer", user)
        await drive.poll()
        assert _waiting(drive) == [("Club", "Ben Tester")]
        said = "Ben Tester shares Club: Accept it with `cmsfs shared`."
        assert drive.agents.sharing.news() == (1, said)
        await _decide(drive, "Club", accept=False)
        assert "is in" in await _decide(drive, "Club")


async def test_decision_lasts_until_state_is_lost(starting: Starting, ben: Remote, user: int) -> None:
    folder, given = await _give(ben, user)
    async with starting() as drive:
        await drive.names()
        await _decide(drive, "Team")
    async with starting() as drive:
        await drive.agents.poll(full=True)
        assert await drive.names(SHELF) == ["Team"]
        # What ends is asked about when it is shared anew.
        await ben.client.collaborations.delete(given)
        await drive.poll()
        assert await drive.names() == []
        await share(ben, "folder", folder, "editor", user)
        await drive.poll()
        assert await drive.names() == []
        await _decide(drive, "Team")
    async with starting(account="lost") as drive:
        assert await drive.names() == []
        assert _waiting(drive) == [("Team", "Ben Tester")]


async def test_left_share_asks_again_when_reshared(starting: Starting, ben: Remote, user: int) -> None:
    file_id = await ben.file("plan.txt", b"theirs")
    await share(ben, "file", file_id, "viewer", user)
    async with starting() as drive:
        await drive.names()
        await _decide(drive, "plan.txt")
        await drive.unlink(f"{SHELF}/plan.txt")
        await drive.sync()
        await share(ben, "file", file_id, "viewer", user)
        await drive.poll()
        assert await drive.names() == []
        assert _waiting(drive) == [("plan.txt", "Ben Tester")]


async def test_withdrawn_offer_cannot_be_accepted(starting: Starting, ben: Remote, user: int) -> None:
    folder, given = await _give(ben, user)
    async with starting() as drive:
        await drive.names()
        await ben.client.collaborations.delete(given)
        assert await _decide(drive, folder) == "Team is no longer shared."
        assert await drive.names() == []
        assert _waiting(drive) == []
        with pytest.raises(errors.UserError, match="There is no shared item Team"):
            await _decide(drive, "Team")


async def test_ambiguous_offer_is_chosen_by_id(starting: Starting, ben: Remote, user: int) -> None:
    first, _ = await _give(ben, user, "Team", await ben.folder("a"))
    second, _ = await _give(ben, user, "Team", await ben.folder("b"))
    async with starting() as drive:
        await drive.names()
        with pytest.raises(errors.UserError, match=f"{first}, {second}"):
            await _decide(drive, "Team")
        await _decide(drive, second)
        assert drive.node(await drive.ino(f"{SHELF}/Team")).remote_id == second


async def test_the_setting_changes(starting: Starting, ben: Remote, user: int) -> None:
    """What is here stays; what was not accepted comes with the other settings."""
    await _give(ben, user)
    async with starting(shared="folder") as drive:
        assert await drive.names(SHELF) == ["Team"]
    async with starting() as drive:
        await _give(ben, user, "Club")
        await drive.poll()
        assert await drive.names(SHELF) == ["Team"]
        assert _waiting(drive) == [("Club", "Ben Tester")]
    async with starting(shared="folder") as drive:
        await drive.names()
        assert await drive.names(SHELF) == ["Club", "Team"]
        assert await drive.read(f"{SHELF}/Club/plan.txt") == b"Ben's plan"
        assert _waiting(drive) == []


async def test_offers_wait_for_a_late_owner_check(
    starting: Starting, ben: Remote, user: int, network: Network
) -> None:
    await _give(ben, user)
    network.is_down = True
    async with starting() as drive:
        network.is_down = False
        await drive.agents.health.reachable()
        await drive.agents.hydrator.listing(ROOT)
        await drive.agents.account.refresh()
        assert await drive.names() == []
        assert _waiting(drive) == [("Team", "Ben Tester")]
        await _decide(drive, "Team")
        assert await drive.names(SHELF) == ["Team"]
        assert await drive.read(f"{SHELF}/Team/plan.txt") == b"Ben's plan"


@pytest.mark.parametrize("feed", ["events", "search"])
async def test_offer_that_ended_leaves_nothing(
    starting: Starting, ben: Remote, other: Remote, user: int, feed: str
) -> None:
    """What was listed below the offered folder goes with it, however much it is, without a question."""
    folder, collaboration = await _give(ben, user)
    for number in range(30):
        await ben.file(f"{number}.txt", b"x", folder)
    async with starting(feed=feed) as drive:
        assert await drive.names() == []
        await drive.agents.crawler.once()
        await ben.client.collaborations.delete(collaboration)
        await drive.agents.reconciler.once(full=True)
        below = "SELECT name FROM node WHERE kind = 'file' AND parent IS NOT NULL"
        assert [row["name"] for row in drive.db.rows(below)] == []
        assert (await drive.agents.conflicts()).missing is None
