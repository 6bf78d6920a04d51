"""`Shared with me` as a folder: what may be done there, and what becomes of files that others change."""

import pytest

from cmsfs import config
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.errno_probe import attempt, share
from tests.support.shared_team import SHELF


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


async def test_what_may_be_done_in_the_folder(
    starting: Starting, ben: Remote, other: Remote, user: int
) -> None:
    await _give(ben, "folder", "Team", "co-owner", user)
    await _give(ben, "file", "plan.txt", "editor", user)
    await other.file("mine.txt", b"mine")
    await other.folder("Own")
    async with starting() as drive:
        await drive.names(SHELF)
        refused = {
            "make a file": drive.write(f"{SHELF}/new.txt", b"x"),
            "make a folder": drive.mkdir(f"{SHELF}/new"),
            "link": drive.fs.symlink(await drive.ino(SHELF), "l", b"x"),
            "move something in": drive.rename("mine.txt", f"{SHELF}/mine.txt"),
            "move a folder in": drive.rename("Own", f"{SHELF}/Own"),
            "move a folder out": drive.rename(f"{SHELF}/Team", "Own/Team"),
            "move a file out": drive.rename(f"{SHELF}/plan.txt", "plan.txt"),
            "remove it": drive.rmdir(SHELF),
            "rename it": drive.rename(SHELF, "Others"),
            "exchange": drive.rename(f"{SHELF}/plan.txt", "mine.txt", 2),
        }
        for what, call in refused.items():
            assert (what, await attempt(call)) in ((what, "EPERM"), (what, "EACCES"))
        await drive.write(f"{SHELF}/Team/new.txt", b"theirs from here on")
        await drive.rename("mine.txt", f"{SHELF}/Team/mine.txt")
        await drive.rename(f"{SHELF}/Team", f"{SHELF}/Club")
        await drive.sync()
        assert sorted(await ben.paths()) == ["Club/", "Club/mine.txt", "Club/new.txt", "plan.txt"]


async def test_shared_file_survives_all_save_patterns(starting: Starting, ben: Remote, user: int) -> None:
    file_id = await _give(ben, "file", "plan.txt", "editor", user)
    plan = f"{SHELF}/plan.txt"
    async with starting() as drive:
        await drive.names(SHELF)
        await drive.write(plan, b"in place")
        await drive.sync()
        assert await ben.read("plan.txt") == b"in place"
        await drive.write(f"{SHELF}/.plan.txt.x1", b"beside and over it")
        await drive.rename(f"{SHELF}/.plan.txt.x1", plan)
        await drive.sync()
        assert await ben.read("plan.txt") == b"beside and over it"
        await drive.rename(plan, f"{SHELF}/plan.txt~")
        await drive.write(plan, b"made anew")
        await drive.unlink(f"{SHELF}/plan.txt~")
        await drive.sync()
        assert await ben.read("plan.txt") == b"made anew"
        assert (await ben.find("plan.txt")).id == file_id
        assert await _shown(drive, SHELF) == {"plan.txt": file_id}


class TestExecutable:
    """The executable bit belongs to the bytes that it was set for."""

    @pytest.fixture(params=["events", "search"])
    def settings(self, request: pytest.FixtureRequest) -> config.Settings:
        return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)

    async def test_somebody_elses_version_is_not_executable(
        self, drive: Drive, ben: Remote, other: Remote, user: int
    ) -> None:
        script = await ben.file("run.sh", b"echo theirs", await ben.folder("Team"))
        await share(ben, "folder", (await ben.find("Team")).id, "editor", user)
        await drive.names()
        path = f"{SHELF}/Team/run.sh"
        await drive.names(f"{SHELF}/Team")
        await drive.fs.setattr(await drive.ino(path), SetAttr(mode=0o755))
        # What the same account does elsewhere, and what is done here, leaves it.
        await other.write(script, b"echo mine, from elsewhere")
        await drive.poll()
        assert await drive.read(path) == b"echo mine, from elsewhere"
        assert drive.node(await drive.ino(path)).mode == 0o755
        await drive.write(path, b"echo mine, from here")
        await drive.sync()
        await drive.poll()
        await ben.client.items.update("file", script, name="go.sh")
        await drive.poll()
        path = f"{SHELF}/Team/go.sh"
        assert drive.node(await drive.ino(path)).mode == 0o755
        await ben.write(script, b"echo gotcha")
        await drive.poll()
        assert await drive.read(path) == b"echo gotcha"
        assert drive.node(await drive.ino(path)).mode == 0o644


async def _give(ben: Remote, kind: str, name: str, role: str, user: int) -> str:
    made = await (ben.folder(name) if kind == "folder" else ben.file(name, b"theirs"))
    await share(ben, kind, made, role, user)
    return str(made)


async def _shown(drive: Drive, path: str) -> dict[str, str | None]:
    return {name: drive.node(await drive.ino(f"{path}/{name}")).remote_id for name in await drive.names(path)}
