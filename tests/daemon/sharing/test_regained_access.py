"""What was refused for a right, or for room, of others: it goes by itself when there is that."""

import pytest
import trio

from cmsfs import config
from cmsfs.models.enterprise import collaborations
from cmsfs.service.storage.store import Store
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network
from tests.support.shared_team import TEAM, Team, held, listed


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


@pytest.fixture
async def team(ben: Remote, user: int) -> Team:
    return await Team(ben, user).make()


async def change_role(team: Team, role: str) -> None:
    wire, url = team.ben.client.folders._wire, f"{errno_probe.URL}/2.0/collaborations/{team.collaboration}"
    await wire.ask(collaborations.Collaboration, "PUT", url, body={"role": role})


async def room(service: Store, user: int, size: int) -> None:
    sql = "UPDATE account SET space_amount = ? WHERE id = ?"
    await service.write(lambda conn: conn.execute(sql, (size, user)))


async def write_all(drive: Drive) -> list[tuple[str, str, str]]:
    """A new version, a new file, a folder and a new name; what is to be sent."""
    await drive.write(f"{TEAM}/plan", b"my plan")
    await drive.write(f"{TEAM}/new", b"mine")
    await drive.mkdir(f"{TEAM}/made")
    await drive.rename(f"{TEAM}/notes", f"{TEAM}/remarks")
    return drive.ops()


def uploads(network: Network) -> int:
    return sum(method == "POST" and "content" in url for method, url in network.requests)


class TestReturns:
    """What was refused for a right or room of others goes by itself when there is that."""

    async def test_a_role_that_is_raised_again(
        self,
        drive: Drive,
        team: Team,
        ben: Remote,
        network: Network,
        nursery: trio.Nursery,
        expect_log: ExpectLog,
    ) -> None:
        expect_log("the service rejected a change")
        nursery.start_soon(drive.agents.regained_access.run)
        await listed(drive)
        network.is_down = True
        await write_all(drive)
        await change_role(team, "viewer")
        network.is_down = False
        await drive.sync()
        assert {state for _, state, _ in drive.ops()} == {"held"}
        assert len(drive.ops()) == 4
        await change_role(team, "editor")
        await drive.poll()
        with trio.fail_after(10):
            while drive.ops():
                await trio.lowlevel.checkpoint()
        assert await ben.read("plan") == b"my plan"
        assert await ben.paths() == [
            *("Team/", "Team/Sub/", "Team/Sub/deep", "Team/made/", "Team/new", "Team/plan", "Team/remarks")
        ]

    async def test_the_owner_has_room_again(
        self,
        drive: Drive,
        team: Team,
        service: Store,
        ben: Remote,
        network: Network,
        expect_log: ExpectLog,
    ) -> None:
        expect_log("the service rejected a change")
        await listed(drive)
        await room(service, ben.user, 10)
        await drive.write(f"{TEAM}/plan", b"my larger plan")
        await drive.write(f"{TEAM}/new", b"mine, and large")
        await drive.sync()
        assert [op[1] for op in drive.ops()] == ["held", "held"]
        before = uploads(network)
        for _ in range(3):
            assert await drive.agents.regained_access.once() == 0
        assert uploads(network) == before
        await room(service, ben.user, 10_000)
        assert await drive.agents.regained_access.once() == 2
        await drive.sync()
        assert drive.ops() == []
        assert await ben.read("new") == b"mine, and large"

    async def test_the_access_is_back_and_nothing_tells(
        self, starting: Starting, team: Team, ben: Remote, network: Network
    ) -> None:
        async with starting(feed="search") as drive:
            await listed(drive)
            network.is_down = True
            await drive.write(f"{TEAM}/plan", b"my plan")
            await team.revoke()
            network.is_down = False
            await drive.sync()
            assert held(drive) == [f"/{TEAM}/plan"]
            await drive.agents.regained_access.once()
            assert held(drive) == [f"/{TEAM}/plan"]
            await team.grant()
            for _ in range(2):  # the folder, then the file in it
                await drive.agents.regained_access.once()
            await drive.sync()
            assert drive.ops() == []
            assert await ben.read("plan") == b"my plan"

    async def test_ones_own_is_not_asked_about(
        self, drive: Drive, service: Store, user: int, network: Network, expect_log: ExpectLog
    ) -> None:
        expect_log("the service rejected a change")
        await room(service, user, 1)
        await drive.write("mine", b"large")
        await drive.sync()
        assert [op[1] for op in drive.ops()] == ["held"]
        before = len(network.requests)
        assert await drive.agents.regained_access.once() == 0
        assert len(network.requests) == before
