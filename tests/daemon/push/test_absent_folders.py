"""Items that are changed or deleted here while a folder above them is in the trash, and that come back."""

from datetime import timedelta

import pytest
import trio

from cmsfs import config
from cmsfs.replica.nodes import NodeKind
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network
from tests.support.patience import crowding


@pytest.fixture
def settings() -> config.Settings:
    # Without events: nobody reports what was in the trash between two polls.
    return config.Settings(settle_seconds=0, feed="search")


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("change", ["rename", "unlink"])
async def test_item_is_there_again_with_its_folder(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch, change: str, depth: int
) -> None:
    # Made long ago: a poll does not look back as far.
    for name in ("LOOK_BACK", "DEEP_BACK"):
        monkeypatch.setattr(f"daemon.pull.search_feed.{name}", timedelta())
    top = folder = await other.folder("top")
    if depth == 2:
        folder = await other.folder("inner", parent=top)
    for name in ("a", "b"):
        await other.file(name, b"x", parent=folder)
    place = "top/inner" if depth == 2 else "top"
    assert await drive.names(place) == ["a", "b"]
    await drive.poll()
    await other.client.items.delete(NodeKind.FOLDER, top, recursive=True)
    if change == "rename":
        await drive.rename(f"{place}/a", "a")
    else:
        await drive.unlink(f"{place}/a")
    with trio.fail_after(20 * crowding()):
        await drive.agents.push.drained()
    assert drive.ops() == []
    await other.client.items.restore(NodeKind.FOLDER, top)
    await drive.poll()
    assert await drive.names(place) == ["a", "b"]
    assert await drive.names() == ["top"]


async def test_folder_that_is_not_empty_is_there_again_with_the_one_above(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its deletion is refused, and then it is away, which is no deletion of it."""
    for name in ("LOOK_BACK", "DEEP_BACK"):
        monkeypatch.setattr(f"daemon.pull.search_feed.{name}", timedelta())
    top = await other.folder("top")
    inner = await other.folder("inner", parent=top)
    await other.file("a", b"x", parent=inner)
    assert await drive.names("top/inner") == ["a"]
    await drive.poll()
    await other.file("b", b"y", parent=inner)
    looking, look = network.gate("GET", f"/folders/{inner}", before=True)
    await drive.unlink("top/inner/a")
    await drive.rmdir("top/inner")
    with trio.fail_after(20 * crowding()):
        await looking.wait()
        await other.client.items.delete(NodeKind.FOLDER, top, recursive=True)
        look.set()
        await drive.agents.push.drained()
    assert drive.ops() == []
    await other.client.items.restore(NodeKind.FOLDER, top)
    await drive.poll()
    assert await drive.names("top") == ["inner"]
    assert await drive.names("top/inner") == ["b"]


async def test_late_answer_that_a_folder_is_away_is_older_than_what_showed_it(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Nothing counts as gone with it."""
    folder = await other.folder("d")
    await other.file("f", b"x", parent=folder)
    assert await drive.names("d") == ["f"]
    await other.client.items.delete(NodeKind.FOLDER, folder, recursive=True)
    answered, release = network.gate("GET", f"/folders/{folder}")
    await drive.rename("d/f", "d/g")
    with trio.fail_after(20 * crowding()):
        await answered.wait()
        await other.client.items.restore(NodeKind.FOLDER, folder)
        await drive.agents.remote_updates.apply([await other.client.items.get(NodeKind.FOLDER, folder)])
        release.set()
        await drive.agents.push.drained()
    await drive.poll()
    assert await drive.names("d") == ["g"]
    assert await other.paths() == ["d/", "d/g"]
