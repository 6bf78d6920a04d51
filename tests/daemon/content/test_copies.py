"""Copies that the service makes: no byte comes down or goes up, and a refusal is a sentence."""

import pytest
import trio

from cmsfs import errors
from cmsfs.replica import tree as replica_tree
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


async def _copy(drive: Drive, source: str, destination: str) -> str:
    return await drive.agents.copies.copy(source, destination)


def _contents(network: Network) -> list[tuple[str, str]]:
    """The requests that bytes of files went with."""
    return [one for one in network.requests if "content" in one[1].partition("?")[0]]


@pytest.fixture
async def tree(other: Remote, drive: Drive) -> Drive:
    """/a/deep/two and /a/one at the service, of which this drive has no bytes, and a folder /b."""
    top = await other.folder("a")
    deep = await other.folder("deep", top)
    await other.file("one", b"1" * 3_000_000, top)
    await other.file("two", b"2", deep)
    await other.folder("b")
    await drive.poll()
    await drive.names("")
    return drive


async def test_a_file_that_is_not_here_is_copied_by_the_service(tree: Drive, other: Remote, network: Network):
    one = await other.find("one")
    await other.client.items.describe("file", one.id, description="the first")
    assert await _copy(tree, "/a/one", "/b") == "/b/one"
    assert await _copy(tree, "/a/one", "/b/three") == "/b/three"
    assert await tree.names("b") == ["one", "three"]
    assert _contents(network) == []
    assert tree.ops() == []
    assert await other.read("three") == b"1" * 3_000_000
    assert (await other.details("three")).description == "the first"
    await tree.read("b/three")
    assert len(_contents(network)) > 0


async def test_a_folder_is_copied_with_all_that_is_in_it(tree: Drive, other: Remote, network: Network):
    await tree.write("a/new", b"not uploaded yet")
    assert await _copy(tree, "/a", "/b/") == "/b/a"
    assert await tree.names("b/a") == ["deep", "new", "one"]
    assert await tree.names("b/a/deep") == ["two"]
    assert [method for method, _ in _contents(network)] == ["POST"]  # of `new`, before
    assert await tree.read("b/a/new") == b"not uploaded yet"
    assert [one for one in await other.paths() if one.startswith("b/")] == [
        *("b/", "b/a/", "b/a/deep/", "b/a/deep/two", "b/a/new", "b/a/one"),
    ]
    await tree.poll()
    assert await tree.names("b") == ["a"]


@pytest.mark.parametrize(
    ("source", "destination", "said"),
    [
        ("/none", "/b", "There is no /none"),
        ("/a/one", "/none/x", "There is no /none"),
        ("/a/one", "/b/x/", "There is no folder /b/x"),
        ("/a/one", "/a/one/x", "/a/one is not a folder"),
        ("/a/one", "/a/ONE", "/a/one already exists"),
        ("/a/one", "/a", "/a/one already exists"),
        ("/a", "/a/deep", "cannot be copied into itself"),
        ("/a", "/a/again", "cannot be copied into itself"),
        ("/", "/b", "/ is not a file or folder that the service can copy"),
        ("/a/one", "/b/x@versions", "'x@versions' is not a possible name"),
    ],
)
async def test_what_cannot_be_copied_is_said(tree: Drive, other: Remote, source, destination, said):
    before = await other.paths()
    with pytest.raises(errors.UserError, match=said):
        await _copy(tree, source, destination)
    assert await other.paths() == before


async def test_a_name_that_others_took_meanwhile_is_said(tree: Drive, other: Remote):
    await other.file("one", b"theirs", (await other.find("b")).id)
    with pytest.raises(errors.UserError, match="/b/one already exists"):
        await _copy(tree, "/a/one", "/b/one")
    assert len([one for one in await other.paths() if one.startswith("b/o")]) == 1


async def _offline(drive: Drive, network: Network) -> None:
    network.is_down = True
    drive.agents.health.asked_for()
    with pytest.raises((errors.RemoteError, OSError)):
        await drive.read("a/deep/two")
    with trio.fail_after(60):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()


async def _online(drive: Drive, network: Network) -> None:
    network.is_down = False
    drive.agents.health.asked_for()
    await drive.sync()


async def test_a_file_is_copied_offline_and_made_by_the_service_later(
    tree: Drive, other: Remote, network: Network
) -> None:
    one = await other.find("one")
    await other.client.items.describe("file", one.id, description="the first")
    await tree.poll()
    await _offline(tree, network)
    assert await _copy(tree, "/a/one", "/b") == "/b/one"
    assert await tree.names("b") == ["one"]
    assert tree.node(await tree.ino("b/one")).size == 3_000_000
    before = len(_contents(network))
    await _online(tree, network)
    assert len(_contents(network)) == before, "bytes went somewhere"
    assert tree.ops() == []
    made = tree.node(await tree.ino("b/one")).remote_id
    assert made not in (None, one.id)
    assert (await other.client.items.details("file", made)).description == "the first"
    assert sorted(one for one in await other.paths() if one.endswith("/one")) == ["a/one", "b/one"]
    assert await tree.read("b/one") == b"1" * 3_000_000


async def test_an_offline_copy_outlives_a_restart(
    starting: Starting, other: Remote, network: Network
) -> None:
    await other.file("one", b"1" * 3_000_000)
    async with starting() as drive:
        await drive.poll()
        await drive.names("")
        network.is_down = True
        with pytest.raises((errors.RemoteError, OSError)):
            await drive.read("one")
        with trio.fail_after(60):
            while drive.agents.health.can_ask:
                await drive.agents.health.changed()
        await _copy(drive, "/one", "/two")
    async with starting() as drive:
        assert await drive.names("") == ["one", "two"]
        before = len(_contents(network))
        await _online(drive, network)
        assert len(_contents(network)) == before
        assert await other.read("two") == b"1" * 3_000_000


async def test_an_offline_copy_is_of_the_version_that_was_meant(
    tree: Drive, other: Remote, network: Network
) -> None:
    one = await other.find("one")
    await _offline(tree, network)
    await _copy(tree, "/a/one", "/b/then")
    await other.write(one.id, b"newer")
    await _online(tree, network)
    assert await other.read("then") == b"1" * 3_000_000
    assert await tree.read("b/then") == b"1" * 3_000_000


async def test_an_offline_copy_of_what_is_gone_by_then_is_sent(
    tree: Drive, other: Remote, network: Network
) -> None:
    one = await other.find("one")
    await tree.read("a/one")
    await _offline(tree, network)
    await _copy(tree, "/a/one", "/b/kept")
    assert await tree.read("b/kept") == b"1" * 3_000_000
    await other.client.items.delete("file", one.id)
    await other.client.items.purge("file", one.id)
    await _online(tree, network)
    assert await other.read("kept") == b"1" * 3_000_000


async def test_what_is_written_to_an_offline_copy_is_what_is_sent(
    tree: Drive, other: Remote, network: Network
) -> None:
    await _offline(tree, network)
    await _copy(tree, "/a/one", "/b/mine")
    await tree.write("b/mine", b"my own")
    await _online(tree, network)
    assert await other.read("mine") == b"my own"


async def test_a_folder_is_copied_offline_file_by_file(tree: Drive, other: Remote, network: Network) -> None:
    one = await other.find("one")
    await tree.names("a")
    await tree.names("a/deep")
    await _offline(tree, network)
    assert await _copy(tree, "/a", "/b/then") == "/b/then"
    assert await tree.names("b/then") == ["deep", "one"]
    assert await tree.names("b/then/deep") == ["two"]
    with pytest.raises(errors.UserError, match="into itself"):
        await _copy(tree, "/a", "/a/deep")
    await other.write(one.id, b"newer")
    before = len(_contents(network))
    await _online(tree, network)
    assert len(_contents(network)) == before, "bytes went somewhere"
    assert tree.ops() == []
    assert {"b/then/one", "b/then/deep/two"} <= set(await other.paths())
    assert await tree.read("b/then/one") == b"1" * 3_000_000


async def test_a_folder_that_is_not_known_is_not_copied_offline(
    tree: Drive, other: Remote, network: Network
) -> None:
    folder = await tree.ino("a/deep")
    await _offline(tree, network)
    await tree.db.write(lambda conn: replica_tree.mark_unlisted(conn, folder))
    with pytest.raises(errors.UserError, match="not all that is in it is known"):
        await _copy(tree, "/a", "/b")
    assert tree.ops() == []


async def test_a_folder_that_may_not_be_written_to_is_no_target(
    tree: Drive, other: Remote, ben: Remote, user: int
):
    await errno_probe.shared_file(tree, ben, "f", "viewer", user)
    with pytest.raises(errors.UserError, match="Nothing can be copied to s: you have no permission"):
        await _copy(tree, "/a/one", "/s")
    # What may be read can be copied from there.
    assert await _copy(tree, "/s/f", "/b") == "/b/f"
