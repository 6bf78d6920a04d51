"""A drive that begins at a folder, and what becomes of it while that folder is in the trash."""

import errno
import os

import pytest
import trio

from cmsfs import errors
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import NodeKind
from daemon.core.health import HealthState
from daemon.listing import deletion_check
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

AGENTS = ("health", "push", "fs")


async def narrowed(starting: Starting, other: Remote) -> str:
    """A folder with `plan` and `old`, at which the next drive that is started begins; its id."""
    folder = await other.folder("Project")
    await other.file("plan", b"theirs", folder)
    await other.file("old", b"old", folder)
    async with starting(agents=(), folder="Project") as before:
        await before.db.write(lambda conn: tree.set_root(conn, folder))
    return folder


def shown(drive: Drive) -> HealthState:
    return drive.agents.health.state


async def restore(other: Remote, folder: str) -> None:
    await other.client.items.restore("folder", folder)


async def until_told(drive: Drive, state: HealthState) -> None:
    with trio.fail_after(20):
        while drive.agents.health.state is not state:
            await drive.agents.health.changed()


async def polled(drive: Drive) -> None:
    """A look at the service, which may find the folder gone."""
    try:
        await drive.poll()
    except errors.RootGone:
        pass


class TestInTheTrash:
    """Nothing can be changed, nothing is lost, and what waits goes when the folder is back."""

    async def test_what_waits_goes_when_the_folder_is_back(
        self, starting: Starting, other: Remote, network: Network, expect_log: ExpectLog
    ) -> None:
        expect_log("The folder that this drive begins at")
        folder = await narrowed(starting, other)
        async with starting(agents=AGENTS, folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            assert await drive.read("plan") == b"theirs"
            plan = await other.find("plan")
            await other.client.items.delete("folder", folder, recursive=True)
            await drive.write("plan", b"mine")
            await drive.write("new", b"new")
            await drive.mkdir("made")
            await drive.unlink("old")
            await until_told(drive, HealthState.READ_ONLY)
            await polled(drive)
            assert "is in the trash" in drive.agents.health.reason
            assert await drive.names() == ["made", "new", "plan"]
            assert await drive.read("plan") == b"mine"
            with pytest.raises(OSError) as refused:
                await drive.write("later", b"")
            assert refused.value.errno == errno.EROFS
            assert {state for _, state, _ in drive.ops()} <= {"ready", "running"}

            await restore(other, folder)
            await drive.poll()
            assert drive.agents.health.state is HealthState.ONLINE
            await drive.sync()
            assert await other.paths() == ["Project/", "Project/made/", "Project/new", "Project/plan"]
            assert await other.read("plan") == b"mine"
            assert (await other.find("plan")).id == plan.id
            await drive.write("later", b"")

    async def test_an_answer_from_before_it_was_back_removes_nothing(
        self, starting: Starting, other: Remote, network: Network
    ) -> None:
        folder = await narrowed(starting, other)
        plan = (await other.find("plan")).id
        async with starting(agents=("health", "fs"), folder="Project") as drive:
            agents = drive.agents
            found: list[str | None] = []

            async def ask() -> None:
                item = await deletion_check.fetch_item(
                    agents.client, agents.health, NodeKind.FILE, plan, db=drive.db
                )
                found.append(None if item is None else item.id)

            await other.client.items.delete("folder", folder, recursive=True)
            held, release = network.gate("GET", f"/files/{plan}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await held.wait()
                await restore(other, folder)
                release.set()
            assert found == [plan]

    async def test_what_is_shown_stays(
        self, starting: Starting, other: Remote, expect_log: ExpectLog
    ) -> None:
        expect_log("The folder that this drive begins at")
        folder = await narrowed(starting, other)
        async with starting(agents=("health", "fs"), folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            ino = await drive.ino("plan")
            assert await drive.read("plan") == b"theirs"
            await other.client.items.delete("folder", folder, recursive=True)
            await polled(drive)
            with pytest.raises(errors.RootGone):
                await drive.agents.reconciler.once(full=True)
            assert shown(drive) is HealthState.READ_ONLY
            assert await drive.names() == ["old", "plan"]
            await restore(other, folder)
            await drive.poll()
            assert shown(drive) is HealthState.ONLINE
            assert await drive.ino("plan") == ino

    async def test_read_of_what_was_not_downloaded_fails_as_without_the_service(
        self, starting: Starting, other: Remote, expect_log: ExpectLog
    ) -> None:
        expect_log("The folder that this drive begins at")
        folder = await narrowed(starting, other)
        async with starting(agents=("health", "fs"), folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            assert await drive.read("old") == b"old"
            await other.client.items.delete("folder", folder, recursive=True)
            for _ in range(2):
                with pytest.raises(OSError) as refused:
                    await drive.read("plan")
                assert refused.value.errno == errno.ENETDOWN
            assert shown(drive) is HealthState.READ_ONLY
            assert await drive.read("old") == b"old"
            assert drive.db.rows("SELECT * FROM doubt") == []
            await restore(other, folder)
            assert await drive.read("plan") == b"theirs"
            assert shown(drive) is HealthState.READ_ONLY
            await drive.poll()
            assert shown(drive) is HealthState.ONLINE

    @pytest.mark.parametrize("is_noticed", [True, False])
    async def test_change_of_what_was_not_downloaded_waits(
        self, starting: Starting, other: Remote, network: Network, expect_log: ExpectLog, is_noticed: bool
    ) -> None:
        folder = await narrowed(starting, other)
        content = bytes(range(256)) * 2000
        large = await other.file("large", content, folder)
        async with starting(agents=AGENTS, folder="Project") as drive:
            assert await drive.names() == ["large", "old", "plan"]
            network.is_down = True
            opened = await drive.fs.open(await drive.ino("large"), os.O_WRONLY)
            await drive.fs.write(opened.fh, 0, b"x" * BLOCK)
            await drive.fs.flush(opened.fh)
            await drive.fs.release(opened.fh)
            await other.client.items.delete("folder", folder, recursive=True)
            asked, answer = network.gate("GET", f"/files/{large}/content")
            network.is_down = False
            drive.agents.health.suspect()
            await asked.wait()
            if not is_noticed:
                await restore(other, folder)
            answer.set()
            if is_noticed:
                expect_log("The folder that this drive begins at")
                await until_told(drive, HealthState.READ_ONLY)
                await restore(other, folder)
                await drive.poll()
            await drive.sync()
            assert drive.ops() == []
        assert await other.paths() == ["Project/", "Project/large", "Project/old", "Project/plan"]
        assert (await other.find("large")).id == large
        assert await other.read("large") == b"x" * BLOCK + content[BLOCK:]


class TestBackBeforeItIsNoticed:
    """Answers from while the folder was away are not believed, although it is there when it is looked for."""

    async def test_item_that_was_away_with_it_is_not_made_anew(
        self, starting: Starting, other: Remote, network: Network
    ) -> None:
        """A rename finds its new folder deleted, and the look for what is missing meets the drive's away."""
        folder = await narrowed(starting, other)
        into = await other.folder("sub", folder)
        plan = (await other.find("plan")).id
        async with starting(agents=AGENTS, folder="Project") as drive:
            assert await drive.names() == ["old", "plan", "sub"]
            renaming, rename = network.gate("PUT", f"/files/{plan}", before=True)
            await drive.rename("plan", "sub/plan")
            await renaming.wait()
            await other.client.items.delete("folder", into)
            checking, checked = network.gate("GET", f"/folders/{folder}")
            rename.set()
            await checking.wait()
            await other.client.items.delete("folder", folder, recursive=True)
            looking, looked = network.gate("GET", f"/files/{plan}")
            checked.set()
            await looking.wait()
            await restore(other, folder)
            looked.set()
            await drive.sync()
        assert await other.paths() == ["Project/", "Project/old", "Project/sub/", "Project/sub/plan"]
        assert (await other.find("plan")).id == plan

    async def test_download_is_made_again(self, starting: Starting, other: Remote, network: Network) -> None:
        folder = await narrowed(starting, other)
        plan = (await other.find("plan")).id
        async with starting(agents=("health", "fs"), folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            await other.client.items.delete("folder", folder, recursive=True)
            reading, read = network.gate("GET", f"/files/{plan}/content")
            found: list[bytes] = []

            async def look() -> None:
                found.append(await drive.read("plan"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(look)
                await reading.wait()
                await restore(other, folder)
                read.set()
            assert found == [b"theirs"]
            assert shown(drive) is HealthState.ONLINE

    async def test_deletion_is_sent_again(self, starting: Starting, other: Remote, network: Network) -> None:
        folder = await narrowed(starting, other)
        old = (await other.find("old")).id
        async with starting(agents=AGENTS, folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            await other.client.items.delete("folder", folder, recursive=True)
            deleting, deleted = network.gate("DELETE", f"/files/{old}")
            await drive.unlink("old")
            await deleting.wait()
            await restore(other, folder)
            deleted.set()
            await drive.sync()
            assert await drive.names() == ["plan"]
        assert await other.paths() == ["Project/", "Project/plan"]

    async def test_what_a_listing_lacks_is_looked_for_again(
        self, starting: Starting, other: Remote, network: Network
    ) -> None:
        folder = await narrowed(starting, other)
        plan = (await other.find("plan")).id
        async with starting(agents=("health", "fs"), folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            ino = await drive.ino("plan")
            generation = await drive.db.write(kv_store.next_generation)
            await other.client.items.delete("folder", folder, recursive=True)
            looking, looked = network.gate("GET", f"/files/{plan}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive.agents.deletion_check.remove, [ino], generation)
                await looking.wait()
                await restore(other, folder)
                looked.set()
            assert await drive.names() == ["old", "plan"]

    async def test_new_file_without_an_answer_is_still_looked_for(
        self, starting: Starting, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 3600.0)
        monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 3600.0)
        folder = await narrowed(starting, other)
        async with starting(agents=AGENTS, folder="Project") as drive:
            assert await drive.names() == ["old", "plan"]
            network.lose_answer("POST", "/files/content")
            await drive.write("new", b"new")

            async def failed() -> bool:
                return bool(drive.db.rows("SELECT * FROM op WHERE attempts > 0"))

            assert await drive.agents.push.until(failed, seconds=20)
            await drive.rename("new", "renamed")
            await other.client.items.delete("folder", folder, recursive=True)
            looking, looked = network.gate("OPTIONS", "/files/content")
            await drive.agents.push.retry_all()
            await looking.wait()
            await restore(other, folder)
            looked.set()
            await drive.sync()
        assert await other.paths() == ["Project/", "Project/old", "Project/plan", "Project/renamed"]
