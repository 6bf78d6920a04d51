"""Folder moves on both sides that would close a ring: no folder is lost, and nothing waits for ever."""

import httpx
import pytest

from cmsfs import config
from cmsfs.replica import tree
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


@pytest.mark.parametrize("is_heard_first", [True, False])
@pytest.mark.parametrize("deleted", [True, False])
async def test_folders_that_were_moved_into_each_other(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_heard_first: bool, deleted: bool
) -> None:
    expect_log("local folder move was undone")
    old = await other.folder("old")
    p, q = await other.folder("P"), await other.folder("Q", old)
    await other.file("p", b"p", parent=p)
    await other.file("q", b"q", parent=q)
    for path in ("", "P", "old/Q"):
        await drive.names(path)
    await drive.poll()
    network.is_down = True
    await drive.rename("P", "old/Q/P")
    await drive.write("old/Q/P/mine", b"mine")
    await drive.mkdir("old/Q/P/made")
    # Elsewhere Q goes into P, and the folder that it was in goes.
    await other.client.items.update("folder", q, parent_id=p)
    if deleted:
        await other.client.items.delete("folder", old, recursive=True)
    if not is_heard_first:
        network.is_down = False
        drive.agents.health.answered()
        await drive.sync()
    network.is_down = False
    await drive.poll()
    await drive.sync()
    await drive.poll()
    await drive.sync()
    expected = ["P/", "P/Q/", "P/Q/q", "P/made/", "P/mine", "P/p", *([] if deleted else ["old/"])]
    assert await other.paths() == sorted(expected)
    assert sorted(await drive.names("P")) == ["Q", "made", "mine", "p"]
    assert await drive.names("P/Q") == ["q"]
    assert await drive.read("P/mine") == b"mine"
    assert drive.ops() == []
    lost = "SELECT name FROM node WHERE parent IS NULL AND ino > 2 AND base_parent IS NOT NULL"
    assert drive.db.rows(lost) == []
    assert tree.find_remote(drive.db, drive.node(await drive.ino("P")).kind, q) is not None


async def test_contents_of_refused_move_are_sent(
    drive: Drive, other: Remote, expect_log: ExpectLog, network: Network
) -> None:
    expect_log("the service rejected a change")
    await other.folder("P")
    await other.folder("Q")
    await drive.names()
    await drive.poll()

    def refuse(request: httpx.Request) -> httpx.Response | None:
        if request.method == "PUT" and "/folders/" in request.url.path:
            body = {"type": "error", "status": 403, "code": "forbidden_by_policy", "message": "no"}
            return httpx.Response(403, json=body)
        return None

    network.instead = refuse
    await drive.rename("P", "Q/P")
    await drive.mkdir("Q/P/made")
    await drive.write("Q/P/made/f", b"f")
    await drive.sync()
    assert await other.paths() == ["P/", "P/made/", "P/made/f", "Q/"]
    assert [op[:2] for op in drive.ops()] == [("move", "held")]


async def test_folder_spelling_follows_the_service(drive: Drive, other: Remote) -> None:
    await drive.names()
    there = await other.folder("dir")
    await other.file("theirs", b"t", parent=there)
    await drive.mkdir("Dir")
    await drive.write("Dir/ours", b"o")
    await drive.sync()
    assert await drive.names() == ["dir"]
    assert await drive.names("dir") == ["ours", "theirs"]
    assert await other.paths() == ["dir/", "dir/ours", "dir/theirs"]
    assert drive.ops() == []
