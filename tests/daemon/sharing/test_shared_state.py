"""What others share, in the state on this disk: checked, lost and found again, pinned, and looked at."""

import pytest
import trio

from cmsfs import config
from daemon.fsck import __main__ as fsck
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import value
from tests.support.log_watch import ExpectLog
from tests.support.shared_team import SHELF, TEAM, Team, listed


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


@pytest.fixture
async def team(ben: Remote, user: int) -> Team:
    return await Team(ben, user).make()


async def test_a_check_finds_nothing(starting: Starting, team: Team, settings: config.Settings) -> None:
    async with starting() as drive:
        await listed(drive)
        await drive.read(f"{TEAM}/plan")
        await drive.write(f"{TEAM}/notes", b"mine")
        await drive.sync()
    report = await trio.to_thread.run_sync(lambda: fsck.run(settings, repair=False))
    assert report.findings == []


async def test_lost_database_restores_unsent_work(
    starting: Starting,
    team: Team,
    other: Remote,
    settings: config.Settings,
    expect_log: ExpectLog,
) -> None:
    expect_log("the local database was lost; restored")
    async with starting() as drive:
        await listed(drive)
    async with starting(agents=()) as drive:
        await drive.write(f"{TEAM}/plan", b"mine")
        await drive.write(f"{TEAM}/new", b"new")
        await drive.agents.commit.commit()
    for path in settings.paths.state.glob("replica.db*"):
        path.unlink()
    async with starting() as drive:
        assert await drive.names() == [SHELF]
        assert await drive.names(TEAM) == ["Sub", "new", "notes", "plan"]
        await drive.sync()
        assert drive.ops() == []
        assert await team.ben.read("plan") == b"mine"
        assert (await team.ben.find("plan")).id == team.plan
        assert await team.ben.read("new") == b"new"
        assert await other.paths() == await team.ben.paths()


async def test_the_folder_is_pinned_as_any_other(drive: Drive, team: Team) -> None:
    await listed(drive)
    await drive.agents.pins.pin(await drive.ino(SHELF))
    with trio.fail_after(20):
        while not (await drive.agents.pins.progress()).is_complete:
            await drive.agents.pins.once()
    (found,) = (await drive.agents.pins.progress()).items
    assert (found.path, found.files, found.files_here) == (f"/{SHELF}", 3, 3)


async def test_whose_it_is_is_said(drive: Drive, team: Team) -> None:
    await listed(drive)
    assert await value(drive, TEAM, "owner") == "Ben Tester <ben@example.com>"
    assert await value(drive, f"{TEAM}/plan", "owner") == "Ben Tester <ben@example.com>"
    assert await value(drive, SHELF, "owner") == "ENODATA"
    await drive.mkdir("mine")
    await drive.sync()
    told = {path: (await drive.agents.told_of(path)).owner for path in (TEAM, f"{TEAM}/plan", SHELF, "mine")}
    assert told == {TEAM: "Ben Tester", f"{TEAM}/plan": "Ben Tester", SHELF: "", "mine": ""}
