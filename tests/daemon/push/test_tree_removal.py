"""`rm -r`: a folder goes with what is in it in one request, and nothing goes that was not seen here."""

import httpx
import pytest
import trio

from cmsfs.models.content import items
from cmsfs.replica.rows import in_flight, op_rows
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

FILES = ["d/a", "d/b", "d/in/a", "d/in/b", "d/in/deep/a"]


@pytest.fixture
async def tree(drive: Drive) -> Drive:
    """A drive with a tree that is sent."""
    for folder in ("d", "d/in", "d/in/deep"):
        await drive.mkdir(folder)
    for path in FILES:
        await drive.write(path, path.encode())
    await drive.sync()
    return drive


async def remove(drive: Drive) -> None:
    """What `rm -r d` calls, while nothing is sent."""
    drive.agents.health.pause("the test")
    for path in FILES:
        await drive.unlink(path)
    for folder in ("d/in/deep", "d/in", "d"):
        await drive.rmdir(folder)
    drive.agents.health.resume()


async def test_a_tree_goes_in_one_request_and_comes_back_as_one(
    tree: Drive, other: Remote, network: Network
) -> None:
    number = (await other.find("d")).id
    await remove(tree)
    await tree.sync()
    assert network.count("DELETE", "") == 1
    assert await other.paths() == []
    assert tree.ops() == []
    assert tree.db.rows("SELECT name FROM node WHERE ino > 2 AND base_parent IS NOT NULL") == []
    await other.client.items.restore("folder", number)
    await tree.poll()
    assert await tree.names("d/in") == ["a", "b", "deep"]
    assert [await tree.read(path) for path in FILES] == [path.encode() for path in FILES]


async def test_a_file_that_nobody_here_has_seen_stays(tree: Drive, other: Remote, network: Network) -> None:
    await other.file("theirs", b"unseen", (await other.find("in")).id)
    await remove(tree)
    await tree.sync()
    assert await other.paths() == ["d/", "d/in/", "d/in/theirs"]
    assert await other.read("theirs") == b"unseen"
    # The rest of it goes as a whole where it can.
    assert network.count("DELETE", "/files/") == 4
    await tree.poll()
    assert await tree.names("d/in") == ["theirs"]
    assert tree.ops() == []


async def test_a_version_that_nobody_here_has_seen_stays(tree: Drive, other: Remote) -> None:
    found = [item for item in await other.everything() if isinstance(item, items.File)]
    [number] = [item.id for item in found if item.size == len("d/in/deep/a")]
    await other.write(number, b"newer bytes of a colleague")
    await remove(tree)
    await tree.sync()
    assert await other.paths() == ["d/", "d/in/", "d/in/deep/", "d/in/deep/a"]
    await tree.poll()
    assert await tree.read("d/in/deep/a") == b"newer bytes of a colleague"


async def test_what_was_moved_there_unseen_stays(tree: Drive, other: Remote) -> None:
    number = await other.file("moved", b"x")
    await tree.poll()
    await other.client.items.update("file", number, parent_id=(await other.find("deep")).id)
    await remove(tree)
    await tree.sync()
    assert await other.paths() == ["d/", "d/in/", "d/in/deep/", "d/in/deep/moved"]


async def test_a_locked_file_is_asked_about_by_itself(tree: Drive, other: Remote, network: Network) -> None:
    number = next(item.id for item in await other.everything() if item.type == "file")
    await other.client.locks.lock(number)
    await tree.poll()
    await remove(tree)
    await tree.sync()
    assert network.count("DELETE", f"/files/{number}") == 1
    assert await other.paths() == []


async def test_a_service_that_knows_no_trees_is_asked_item_by_item(
    tree: Drive, other: Remote, network: Network
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response | None:
        if "recursive=known" not in str(request.url):
            return None
        return httpx.Response(400, json={"code": "folder_not_empty", "status": 400, "message": "no"})

    network.instead = refuse
    await remove(tree)
    await tree.sync()
    assert await other.paths() == []
    assert network.count("DELETE", "/files/") == len(FILES)
    assert tree.ops() == []


async def test_a_lost_answer_to_the_deletion_of_a_tree(tree: Drive, other: Remote, network: Network) -> None:
    network.lose_answer("DELETE", "recursive=known")
    await remove(tree)
    await tree.sync()
    assert await other.paths() == []
    assert tree.ops() == []
    assert tree.db.rows("SELECT * FROM node WHERE base_parent IS NOT NULL") == []


async def test_a_tree_waits_for_bytes_that_only_it_has(tree: Drive, other: Remote, network: Network) -> None:
    """`d/a` has become the next version of a file elsewhere."""
    await tree.write("kept", b"before")
    await tree.sync()
    tree.agents.health.pause("the test")
    await tree.rename("d/a", "kept")
    for path in FILES[1:]:
        await tree.unlink(path)
    for folder in ("d/in/deep", "d/in", "d"):
        await tree.rmdir(folder)
    arrived, go = network.gate("POST", "/content", before=True)
    tree.agents.health.resume()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree.sync)
        await arrived.wait()
        # The item that `d/a` was has the bytes until the service has them as `kept`, and so its folder stays.
        assert network.count("DELETE", "/folders") == network.count("DELETE", "recursive=known")
        assert "d/" in await other.paths()
        go.set()
    assert await other.paths() == ["kept"]
    assert await other.read("kept") == b"d/a"


async def test_a_file_that_is_open_goes_with_its_tree(tree: Drive, other: Remote, network: Network) -> None:
    ino = await tree.ino("d/in/a")
    opened = await tree.fs.open(ino, 0)
    await remove(tree)
    await tree.sync()
    assert await other.paths() == []
    assert network.count("DELETE", "") == 1
    assert bytes(await tree.fs.read(opened.fh, 0, 100)) == b"d/in/a"
    await tree.fs.release(opened.fh)


async def test_a_deletion_that_is_held_keeps_its_folder(tree: Drive, other: Remote, network: Network) -> None:
    number = await tree.ino("d/a")
    tree.agents.health.pause("the test")
    for path in FILES:
        await tree.unlink(path)
    for folder in ("d/in/deep", "d/in", "d"):
        await tree.rmdir(folder)
    await tree.db.write(lambda conn: op_rows.hold_waiting(conn, number, error="refused"))
    # Not `sync`, which tries again what is held.
    with trio.fail_after(20), tree.agents.push.hurrying():
        tree.agents.health.resume()
        await tree.agents.push.drained()
    assert await other.paths() == ["d/", "d/a"]
    # The folder `in` goes as a whole all the same.
    assert network.count("DELETE", "recursive=known") == 1


async def test_a_version_without_an_answer_keeps_its_folder_from_going_as_a_whole(
    tree: Drive, other: Remote, network: Network
) -> None:
    node = tree.node(await tree.ino("d/a"))
    sent = in_flight.SentRequest(node.ino, "0" * 40, remote_id=node.remote_id)
    await tree.db.write(lambda conn: in_flight.note(conn, sent))
    await remove(tree)
    await tree.sync()
    assert await other.paths() == []
    assert tree.ops() == []
    assert network.count("DELETE", f"/files/{node.remote_id}") == 1
    assert network.count("DELETE", "recursive=known") == 1


@pytest.mark.parametrize("returned", [False, True], ids=["before it is back", "after it is back"])
async def test_what_came_back_into_a_deleted_folder_goes_with_it(
    drive: Drive, other: Remote, network: Network, returned: bool
) -> None:
    """It had been changed elsewhere; then the folder was deleted there, too."""
    await drive.mkdir("p")
    await drive.write("p/f", b"one")
    await drive.sync()
    folder, file = await other.find("p"), await other.find("f")
    await other.write(file.id, b"two")
    drive.agents.health.pause("the test")
    await drive.unlink("p/f")
    await drive.rmdir("p")
    if returned:
        looked, go_on = network.gate("DELETE", f"/folders/{folder.id}?recursive=false", before=True)
    else:
        looked, go_on = network.gate("GET", f"/files/{file.id}")
    drive.agents.health.resume()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await looked.wait()
        await other.client.items.delete("folder", folder.id, recursive=True)
        go_on.set()
    if returned:
        assert drive.db.rows("SELECT name FROM node WHERE parent > 1") == []
    await drive.poll()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == []
    assert drive.db.rows("SELECT name FROM node WHERE parent > 1") == []
    await other.client.items.restore("folder", folder.id)
    await drive.poll()
    assert await drive.read("p/f") == b"two"
