"""The drive's main stories over a service with the habits of the live one."""

import os

import pytest

from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.live_service import LiveService

MIB = 1024 * 1024


async def test_a_file_is_read(drive: Drive, other: Remote, live: LiveService) -> None:
    data = os.urandom(2 * MIB + 7)
    await other.file("a", b"small")
    await other.file("large", data)
    assert await drive.read("a") == b"small"
    assert await drive.read("large") == data
    assert live.went_out
    assert live.refused_tokens == 0


async def test_what_is_written_here_arrives(drive: Drive, other: Remote) -> None:
    await drive.mkdir("docs")
    await drive.write("docs/a", b"one")
    await drive.sync()
    await drive.write("docs/a", b"two")
    await drive.rename("docs/a", "b")
    await drive.sync()
    assert await other.paths() == ["b", "docs/"]
    assert await other.read("b") == b"two"
    await drive.unlink("b")
    await drive.rmdir("docs")
    await drive.sync()
    assert (await other.paths(), await drive.names(), drive.ops()) == ([], [], [])


async def test_times_come_to_rest(drive: Drive, other: Remote) -> None:
    ino = await drive.write("a", b"one")
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_600_000_000_123_456_789))
    await drive.sync()
    for _ in range(3):
        await drive.poll()
        await drive.sync()
    assert drive.ops() == []
    found = await other.find_file("a")
    assert found.content_modified_at is not None
    assert int(found.content_modified_at.timestamp()) == 1_600_000_000


async def test_changes_elsewhere_arrive(drive: Drive, other: Remote) -> None:
    assert await drive.names() == []
    await drive.poll()
    docs = await other.folder("docs")
    number = await other.file("a", b"one", docs)
    await other.file("b", b"b")
    await drive.poll()
    assert (await drive.names(), await drive.names("docs")) == (["b", "docs"], ["a"])
    await other.write(number, b"two")
    await other.client.items.update("file", number, name="c", parent_id="0")
    await other.client.items.delete("file", (await other.find("b")).id)
    for _ in range(4):
        await drive.poll()
        assert await drive.names() == ["c", "docs"]
        assert await drive.read("c") == b"two"


async def test_old_events_bring_nothing_back(drive: Drive, other: Remote) -> None:
    assert await drive.names() == []
    await drive.poll()
    for number in range(6):
        item = await other.file(f"f{number}", b"x")
        await drive.poll()
        await other.client.items.delete("file", item)
    for _ in range(6):
        await drive.poll()
    assert await drive.names() == []


async def test_what_is_in_the_trash_is_gone(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"one")
    assert await drive.names() == ["a"]
    await other.client.items.delete("file", number)
    await drive.write("a", b"ours")
    await drive.sync()
    assert await other.paths() == ["a"]
    assert await other.read("a") == b"ours"


async def test_it_comes_back_out_of_the_trash(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"one")
    assert await drive.names() == ["a"]
    await drive.unlink("a")
    await drive.sync()
    shown = drive.agents.shown
    trash = await shown.lookup(ROOT, ".trash")
    await shown.lookup(trash.ino, "a")
    await shown.rename(trash.ino, "a", ROOT, "a", 0)
    assert await drive.names() == ["a"]
    assert (await other.find("a")).id == number


async def test_both_versions_are_kept(drive: Drive, other: Remote) -> None:
    number = await other.file("a", b"base")
    assert await drive.read("a") == b"base"
    await other.write(number, b"theirs")
    await drive.write("a", b"ours")
    await drive.sync()
    await drive.poll()
    assert sorted([await drive.read(name) for name in await drive.names()]) == [b"ours", b"theirs"]
    assert drive.ops() == []


async def test_a_name_that_ends_with_a_space(drive: Drive, other: Remote) -> None:
    folder = await other.folder("folder~")
    await other.file("draft~", b"one", folder)
    (shown,) = await drive.names()
    (inside,) = await drive.names(shown)
    assert (shown.rstrip(), inside.rstrip()) == ("folder", "draft")
    assert await drive.read(f"{shown}/{inside}") == b"one"
    await drive.write(f"{shown}/{inside}", b"two")
    await drive.rename(f"{shown}/{inside}", "draft")
    await drive.sync()
    await drive.poll()
    assert await other.read("draft") == b"two"
    assert (drive.ops(), await drive.names()) == ([], ["draft", shown])


async def test_a_comparison_with_a_late_search_takes_nothing_away(
    drive: Drive, other: Remote, live: LiveService
) -> None:
    live.late = {"a", "docs"}
    docs = await other.folder("docs")
    for name in ("a", "b", "c"):
        await other.file(name, b"x", docs)
    await drive.names()
    await drive.names("docs")
    await drive.agents.reconciler.once(full=True)
    await drive.agents.reconciler.once(full=False)
    assert (await drive.names(), await drive.names("docs")) == (["docs"], ["a", "b", "c"])


async def test_another_start_finds_the_same(starting: Starting, other: Remote) -> None:
    docs = await other.folder("docs")
    await other.file("a", b"x", docs)
    async with starting() as drive:
        assert (await drive.names(), await drive.names("docs")) == (["docs"], ["a"])
        await drive.poll()
    await other.file("b", b"y", docs)
    async with starting() as drive:
        await drive.poll()
        assert await drive.names("docs") == ["a", "b"]


@pytest.mark.parametrize("path", ["", "docs"])
async def test_folders_without_dates_are_shown(drive: Drive, other: Remote, path: str) -> None:
    await other.folder("docs")
    await drive.names()
    assert drive.fs.getattr(await drive.ino(path)).mtime_ns >= 0
