"""Push: items whose place another item has at the service."""

import pytest
import trio

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.tree.renaming import EXCHANGE
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


async def test_deleted_file_that_was_renamed_elsewhere_gives_up_its_name_and_bytes(
    starting: Starting, other: Remote, network: Network
) -> None:
    """It has the name and the contents of a new file, after whose upload it is deleted: it is renamed."""
    async with starting() as drive:
        await drive.write("old", b"the same")
        await drive.sync()
    async with starting() as drive:
        arrived, _ = network.gate("POST", "/files/content", before=True)
        await drive.write("new", b"the same")
        with trio.fail_after(5):
            await arrived.wait()
        await drive.unlink("old")
    await other.client.items.update("file", (await other.find("old")).id, name="new")
    async with starting() as drive:
        with trio.fail_after(10):
            while drive.ops():
                await trio.lowlevel.checkpoint()
        assert await drive.names() == ["new"]
        assert await drive.read("new") == b"the same"
    assert await other.paths() == ["new"]


@pytest.mark.parametrize(
    "settings", [config.Settings(settle_seconds=0, network_seconds=5, feed="search")], ids=["search"]
)
async def test_program_that_was_renamed_here_and_moved_elsewhere_gets_the_last_place(
    drive: Drive, other: Remote
) -> None:
    """Who changed a program is asked after our rename is sent; where it is now must be known before that:
    the new name alone would meet another item's in a folder that our rename does not mention."""
    number = await other.file("f", b"one")
    folder = await other.folder("d")
    await other.file("g", b"another", parent=folder)
    await drive.read("f")
    await drive.fs.setattr(await drive.ino("f"), SetAttr(mode=0o755), None)
    drive.agents.health.pause("the test")
    await drive.rename("f", "g")
    await other.client.items.update("file", number, parent_id=folder)
    await other.write(number, b"two")
    await drive.poll()
    drive.agents.health.resume()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    assert await other.paths() == ["d/", "d/g", "g"]
    assert await drive.read("g") == b"two"


async def test_move_of_a_file_that_was_renamed_elsewhere_sends_its_name_when_that_is_in_use(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Only its folder is sent at first; nobody says that it has another's name by now."""
    number = await other.file("f", b"one")
    folder = await other.folder("d")
    await other.file("g", b"another", parent=folder)
    assert await drive.names() == ["d", "f"]
    assert await drive.names("d") == ["g"]
    await other.client.items.update("file", number, name="g")
    await drive.rename("f", "d/f")
    await drive.sync()
    assert await other.paths() == ["d/", "d/f", "d/g"]
    assert network.count("PUT", f"/files/{number}") == 2


async def test_time_of_a_file_that_became_a_backup_waits_for_its_upload(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The item that the time was being sent to is the next version's by then, and the backup has none yet."""
    ino = await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    sending, go_on = network.gate("PUT", f"/files/{kept}", before=True)
    network.lose_answer("PUT", f"/files/{kept}")
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922 * 10**9))
    await sending.wait()
    await drive.rename("f", "f.bak")
    network.is_down = True
    await drive.write("f", b"two")
    go_on.set()

    async def has_failed() -> bool:
        return not drive.db.rows("SELECT 1 FROM op WHERE state = 'running'")

    assert await drive.agents.push.until(has_failed, seconds=20)
    network.is_down = False
    drive.agents.health.suspect()
    await drive.sync()
    assert await other.paths() == ["f", "f.bak"]
    assert (await other.find("f")).id == kept
    assert await other.read("f.bak") == b"one"
    assert (await other.find_file("f.bak")).content_modified_at.timestamp() == 1_580_608_922


async def test_item_whose_folder_was_away_when_it_was_looked_for_is_renamed(
    drive: Drive, other: Remote, network: Network
) -> None:
    """It does not count as deleted, since its folder is back by the time that is looked at."""
    docs = await other.folder("docs")
    plan = await other.file("plan", b"x", docs)
    assert await drive.names("docs") == ["plan"]
    renaming, rename = network.gate("PUT", f"/files/{plan}", before=True)
    await drive.rename("docs/plan", "docs/new")
    await renaming.wait()
    await other.client.items.delete("folder", docs, recursive=True)
    looking, looked = network.gate("GET", f"/files/{plan}")
    rename.set()
    await looking.wait()
    await other.client.items.restore("folder", docs)
    looked.set()
    await drive.sync()
    assert await drive.names("docs") == ["new"]
    assert await other.paths() == ["docs/", "docs/new"]
    assert (await other.find("new")).id == plan


async def test_folder_that_was_replaced_by_one_that_was_moved_into_it_elsewhere_gives_up_its_name(
    drive: Drive, other: Remote
) -> None:
    """One waits for the name, which the other has until it is deleted, after the first has left it."""
    replaced = await other.folder("p")
    await other.file("f", b"x", parent=await other.folder("q"))
    assert await drive.names("q") == ["f"]
    assert await drive.names("p") == []
    drive.agents.health.pause("the test")
    await drive.rename("q", "p")
    await other.client.items.update("folder", (await other.find("q")).id, parent_id=replaced)
    await drive.poll()
    drive.agents.health.resume()
    await drive.sync()
    assert await other.paths() == ["p/", "p/f"]
    assert (await other.find("p")).id != replaced
    assert await drive.names() == ["p"]
    assert await drive.read("p/f") == b"x"


async def test_folder_that_steps_aside_while_it_is_made_is_called_so_at_the_service(
    drive: Drive, other: Remote, network: Network
) -> None:
    """An outdated page has somebody else's folder under its name, which is free at the service."""
    number = await other.folder("theirs")
    assert await drive.names() == ["theirs"]
    await other.client.items.update("folder", number, name="docs")
    before = await other.find("docs")
    await other.client.items.update("folder", number, name="theirs")
    made, go_on = network.gate("POST", "/folders")
    ours = await drive.mkdir("docs")
    with trio.fail_after(5):
        await made.wait()
    await drive.agents.remote_updates.apply([before])
    assert drive.node(ours).name != "docs"
    go_on.set()
    for _ in range(2):
        await drive.sync()
        await drive.poll()
    assert drive.ops() == []
    assert [f"{name}/" for name in await drive.names()] == await other.paths()
    assert drive.node(ours).remote_id is not None


async def test_name_of_an_item_that_is_replaced_while_it_is_moved_there_is_waited_for(
    drive: Drive, other: Remote, network: Network
) -> None:
    for name in ("one", "two"):
        await other.file(name, name.encode())
    await drive.names()
    arrived, go = network.gate("PUT", "/files/", before=True)
    await drive.rename("one", "name")
    with trio.fail_after(20):
        await arrived.wait()
    await drive.rename("two", "name")
    deleting, delete = network.gate("DELETE", "/files/", before=True)
    before = network.count("PUT", "/files/")
    go.set()

    async def is_asked_for() -> bool:
        return network.count("PUT", "/files/") > before and ("move", "running") not in [
            (kind, state) for kind, state, _ in drive.ops()
        ]

    with trio.fail_after(20):
        await deleting.wait()
    assert await drive.agents.push.until(is_asked_for, seconds=20)
    delete.set()
    await drive.sync()
    assert await drive.names() == ["name"]
    assert await other.paths() == ["name"]
    assert await drive.read("name") == b"two"


async def test_a_folder_that_was_made_here_while_the_old_one_came_back_is_listed(
    drive: Drive, other: Remote
) -> None:
    """Programs that looked for its files in vain are told of them, though nobody opens it."""
    folder = await other.folder("d")
    assert await drive.names("d") == []
    handle = await drive.fs.opendir(await drive.ino("d"))
    await drive.rmdir("d")
    await drive.sync()
    drive.agents.health.pause("the test")
    ino = await drive.mkdir("d")
    await other.client.items.restore("folder", folder)
    await other.file("f", b"x", parent=folder)
    drive.agents.health.resume()
    await drive.sync()
    with trio.fail_after(10):
        while not tree.is_listed(drive.db, ino):
            await drive.db.written.wait()
    assert await drive.names("d") == ["f"]
    drive.fs.releasedir(handle)


async def test_new_folder_is_not_the_one_that_had_its_name_a_moment_ago(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Its holder is moved away at the service while it is asked for: that is shown where it is."""
    docs = await other.folder("docs")
    await drive.poll()
    made, make = network.gate("POST", "/folders", before=True)
    await drive.mkdir("new")
    with trio.fail_after(10):
        await made.wait()
        old = await other.folder("new")
        asked, answer = network.gate("GET", f"/folders/{old}", before=True)
        make.set()
        await asked.wait()
        await other.client.items.update("folder", old, parent_id=docs)
        answer.set()
        while drive.ops():
            await trio.lowlevel.checkpoint()
    await drive.poll()
    assert await drive.names() == ["docs", "new"]
    assert await drive.names("docs") == ["new"]
    assert await other.paths() == ["docs/", "docs/new/", "new/"]


async def test_file_moves_from_a_removed_folder_to_the_one_that_replaces_it(
    drive: Drive, other: Remote
) -> None:
    await drive.mkdir("d")
    await drive.write("d/f", b"one")
    await drive.sync()
    kept = await other.find("f")
    drive.agents.health.pause("the test")
    await drive.rename("d/f", "f")
    await drive.rmdir("d")
    await drive.mkdir("d")
    await drive.rename("f", "d/f")
    drive.agents.health.resume()
    await drive.sync()
    assert await other.paths() == ["d/", "d/f"]
    assert (await other.find("f")).id == kept.id


async def test_file_deleted_elsewhere_while_it_gets_a_temporary_name_is_gone(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("a", b"a")
    await drive.write("b", b"b")
    await drive.sync()
    renaming, go_on = network.gate("PUT", "/files/")
    await drive.rename("a", "b", EXCHANGE)
    with trio.fail_after(5):
        await renaming.wait()
    (aside,) = [path for path in await other.paths() if path.startswith(".cmsfs-aside")]
    await other.client.items.delete("file", (await other.find(aside)).id)
    # No program knows it, so that nothing of it stays here.
    inos = [await drive.ino("a"), await drive.ino("b")]
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino)) for ino in inos])
    await drive.poll()
    with trio.fail_after(20):
        while all(tree.find(drive.db, ino) is not None for ino in inos):
            await trio.lowlevel.checkpoint()
    go_on.set()
    await drive.sync()
    await drive.poll()
    assert len(await drive.names()) == 1
    assert await drive.names() == await other.paths()
