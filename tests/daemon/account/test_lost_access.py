"""Access that ends and comes back: what is not sent stays, is told, and goes into the same item."""

import os

import pytest
import trio

from cmsfs import config
from cmsfs.replica.sharing import lost_access
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import attempt, share
from tests.support.network import Network
from tests.support.shared_team import SHELF, TEAM, Team, held, listed, revoke_while_offline


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


@pytest.fixture
async def team(ben: Remote, user: int) -> Team:
    return await Team(ben, user).make()


UNSENT = [f"/{TEAM}/{name}" for name in ("made", "made/in it", "new", "plan")]


async def test_unsent_work_is_held_where_it_is(
    drive: Drive, team: Team, other: Remote, ben: Remote, network: Network
) -> None:
    await listed(drive)
    await revoke_while_offline(drive, team, network)
    assert held(drive) == UNSENT
    assert {row["error"] for row in drive.db.rows("SELECT error FROM op")} == {lost_access.REASON}
    assert await drive.names(TEAM) == ["made", "new", "plan"]
    assert await drive.read(f"{TEAM}/plan") == b"my plan"
    # Neither is anything of it made our own, nor does it reach Ben.
    assert await other.paths() == []
    assert await ben.read("plan") == b"Ben's plan"


async def test_operations_resume_when_access_returns(
    starting: Starting, team: Team, ben: Remote, network: Network
) -> None:
    async with starting() as drive:
        await listed(drive)
        await revoke_while_offline(drive, team, network)
    # Over a restart, too.
    async with starting() as drive:
        assert held(drive) == UNSENT
        await drive.sync()
        assert held(drive) == UNSENT
        await team.grant()
        await drive.poll()
        await drive.sync()
        assert drive.ops() == []
        assert await ben.paths() == [
            *("Team/", "Team/Sub/", "Team/Sub/deep", "Team/made/", "Team/made/in it"),
            *("Team/new", "Team/notes", "Team/plan"),
        ]
        assert (await ben.find("plan")).id == team.plan
        assert await ben.read("plan") == b"my plan"
        with trio.fail_after(10):
            while await drive.names(TEAM) != ["Sub", "made", "new", "notes", "plan"]:
                await drive.changed.wait()
        assert await drive.names() == [SHELF]


async def test_so_it_is_in_the_root(starting: Starting, team: Team, ben: Remote, network: Network) -> None:
    async with starting(shared="root") as drive:
        assert await drive.names("Team") == ["Sub", "notes", "plan"]
        network.is_down = True
        await drive.write("Team/plan", b"my plan")
        await team.revoke()
        network.is_down = False
        for _ in range(2):
            await drive.poll()
            await drive.sync()
            assert held(drive) == ["/Team/plan"]
        await team.grant()
        await drive.poll()
        await drive.sync()
        assert drive.ops() == []
        assert await ben.read("plan") == b"my plan"


async def test_copy_becomes_own_after_lost_access(
    drive: Drive, team: Team, other: Remote, network: Network
) -> None:
    await listed(drive)
    await revoke_while_offline(drive, team, network)
    await drive.write("my plan", await drive.read(f"{TEAM}/plan"))
    await drive.sync()
    assert await other.paths() == ["my plan"]
    for path in (*UNSENT[1:], UNSENT[0]):
        await drive.agents.discard(path)
    assert await drive.names() == ["my plan"]


async def test_it_can_be_deleted(drive: Drive, team: Team, network: Network) -> None:
    await listed(drive)
    await revoke_while_offline(drive, team, network)
    for name in ("new", "plan", "made/in it"):
        assert await attempt(drive.unlink(f"{TEAM}/{name}")) == "ok"
    assert await attempt(drive.rmdir(f"{TEAM}/made")) == "ok"
    assert await attempt(drive.rmdir(TEAM)) == "ok"
    await drive.sync()
    assert drive.ops() == []


async def test_item_visible_elsewhere_keeps_pending_work(
    drive: Drive, team: Team, ben: Remote, network: Network
) -> None:
    await listed(drive)
    await share(ben, "folder", team.sub, "editor", team.user)
    await drive.poll()
    network.is_down = True
    ino = await drive.write(f"{TEAM}/Sub/deep", b"mine")
    await team.revoke()
    network.is_down = False
    drive.changes.clear()
    await drive.poll()
    assert await drive.names(SHELF) == ["Sub"]
    assert await drive.ino(f"{SHELF}/Sub/deep") == ino
    await drive.sync()
    assert await ben.read("deep") == b"mine"
    assert (await ben.find("deep")).id == team.deep


async def test_what_has_nothing_unsent_goes(drive: Drive, team: Team) -> None:
    await listed(drive)
    await team.revoke()
    await drive.poll()
    assert await drive.names() == []
    await team.grant("viewer")
    await drive.poll()
    assert await drive.names(TEAM) == ["Sub", "notes", "plan"]


async def read_versions(drive: Drive, path: str) -> list[tuple[int, bytes]]:
    """All that is in `NAME@versions`, each with its inode."""
    folder, name = await drive.place(path)
    shown = drive.agents.shown
    views = await shown.lookup(folder, f"{name}@versions")
    fh = await shown.opendir(views.ino)
    entries = await shown.readdir(fh, 0)
    shown.releasedir(fh)
    found = []
    for entry in entries:
        ino = (await shown.lookup(views.ino, entry.name)).ino
        found.append((ino, await read_shown(drive, ino)))
    return found


async def read_shown(drive: Drive, ino: int) -> bytes:
    opened = await drive.agents.shown.open(ino, 0)
    try:
        return bytes(await drive.agents.shown.read(opened.fh, 0, 1000))
    finally:
        await drive.agents.shown.release(opened.fh)


async def wiped(drive: Drive) -> None:
    with trio.fail_after(10):
        while not await drive.agents.wiper.once():
            await trio.lowlevel.checkpoint()


def on_disk(drive: Drive) -> bytes:
    """All bytes of the cache's files."""
    folder = drive.agents.settings.paths.blocks
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


class TestBytes:
    """Bytes that may no longer be read are gone from this disk, and nobody gets at them."""

    @pytest.fixture
    async def read(self, drive: Drive, team: Team, ben: Remote, other: Remote) -> int:
        """Everything was read, also an older version, whose inode this is; `mine` has bytes of Ben's, too."""
        await ben.write(team.plan, b"Ben's new plan")
        await other.file("mine", b"Ben's notes")
        await listed(drive)
        await drive.names()
        assert await drive.read("mine") == b"Ben's notes"
        for path in (f"{TEAM}/plan", f"{TEAM}/notes", f"{TEAM}/Sub/deep"):
            await drive.read(path)
        ((ino, old),) = await read_versions(drive, f"{TEAM}/plan")
        assert old == b"Ben's plan"
        await drive.agents.state.blocks.flush()
        for some in (b"Ben's plan", b"Ben's new plan", b"Ben's deep", b"Ben's notes"):
            assert some in on_disk(drive)
        return ino

    async def check(self, drive: Drive, ino: int) -> None:
        assert await attempt(read_shown(drive, ino)) in ("ENOENT", "EACCES")
        await wiped(drive)
        for some in (b"Ben's plan", b"Ben's new plan", b"Ben's deep"):
            assert some not in on_disk(drive)
        assert await drive.read("mine") == b"Ben's notes"
        assert b"Ben's notes" in on_disk(drive)

    async def test_when_the_access_ends(self, drive: Drive, team: Team, read: int) -> None:
        await team.revoke()
        await drive.poll()
        await self.check(drive, read)

    async def test_access_ends_with_unsent_changes(
        self, drive: Drive, team: Team, read: int, network: Network
    ) -> None:
        await revoke_while_offline(drive, team, network)
        await self.check(drive, read)
        assert await drive.read(f"{TEAM}/plan") == b"my plan"
        assert await attempt(read_versions(drive, f"{TEAM}/plan")) == "ENOENT"

    async def test_over_a_restart(self, starting: Starting, team: Team, ben: Remote) -> None:
        async with starting() as drive:
            await listed(drive)
            await drive.read(f"{TEAM}/plan")
            await drive.agents.state.blocks.flush()
            await team.revoke()
            await drive.poll()
            assert b"Ben's plan" in on_disk(drive)
        async with starting() as drive:
            await wiped(drive)
            assert b"Ben's plan" not in on_disk(drive)

    @pytest.mark.parametrize("role", ["previewer", "uploader"])
    async def test_when_the_role_no_longer_lets_us_read(
        self, drive: Drive, team: Team, ben: Remote, read: int, role: str
    ) -> None:
        ino = await drive.ino(TEAM)
        await drive.agents.pins.pin(ino)
        await drive.agents.account.rights.learn(drive.node(ino))
        await ben.client.collaborations.delete(team.collaboration)
        await team.grant(role)
        await drive.poll()
        with trio.fail_after(10):
            while drive.agents.account.rights._asking:
                await trio.lowlevel.checkpoint()
        await self.check(drive, read)
        assert await attempt(drive.read(f"{TEAM}/plan")) == "EACCES"
        assert await attempt(read_versions(drive, f"{TEAM}/plan")) == "EACCES"


@pytest.mark.parametrize("name", ["plan", "Sub/deep"])
async def test_write_after_lost_access_reaches_same_item(
    drive: Drive, team: Team, other: Remote, ben: Remote, name: str
) -> None:
    """A program has the file open all the time, and writes when nobody may see it any more."""
    await listed(drive)
    ino = await drive.ino(f"{TEAM}/{name}")
    before = await drive.read(f"{TEAM}/{name}")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await team.revoke()
    await drive.poll()
    assert SHELF not in await drive.names()
    await drive.fs.write(opened.fh, len(before), b", and mine")
    await drive.fs.fsync(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert held(drive) == [f"/{TEAM}/{name}"]
    assert await drive.read(f"{TEAM}/{name}") == before + b", and mine"
    assert await other.paths() == []
    await team.grant()
    await drive.poll()
    await drive.sync()
    assert drive.ops() == []
    assert await ben.read(name.rpartition("/")[2]) == before + b", and mine"
    assert len([path for path in await ben.paths() if name in path]) == 1
