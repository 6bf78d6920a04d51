"""A listing while names change: what was there all the time comes once, and only once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cmsfs.replica.nodes import ROOT
from tests.vfs.conftest import Drive

COUNT = 600

Change = Callable[[Any, int], Awaitable[None]]


async def rename_later_over_seen(drive: Drive, step: int) -> None:
    """The newer inode takes a name that was read already: it would come again."""
    await drive.fs.rename(ROOT, f"new{step}", ROOT, f"f{step}", 0)


async def rename_seen_over_later(drive: Drive, step: int) -> None:
    """The older inode takes a name that is still to come: it would never come."""
    await drive.fs.rename(ROOT, f"old{step}", ROOT, f"f{COUNT - 1 - step}", 0)


async def save_anew(drive: Drive, step: int) -> None:
    """A file is deleted and made again, as programs save."""
    await drive.write_file("tmp", b"new")
    await drive.fs.rename(ROOT, "tmp", ROOT, f"f{step}", 0)


async def exchange(drive: Drive, step: int) -> None:
    await drive.fs.rename(ROOT, f"f{step}", ROOT, f"f{COUNT - 1 - step}", 2)


@pytest.mark.parametrize(
    "change", [rename_later_over_seen, rename_seen_over_later, save_anew, exchange], ids=lambda c: c.__name__
)
async def test_persistent_name_is_listed_once(drive: Drive, change: Change) -> None:
    for number in range(3):
        await drive.write_file(f"old{number}", b"")
    for number in range(COUNT):
        await drive.remote_file(number + 1, f"f{number}", b"x")
    for number in range(3):
        await drive.write_file(f"new{number}", b"")
    fh = await drive.fs.opendir(ROOT)
    seen: list[str] = []
    after = step = 0
    while entries := await drive.fs.readdir(fh, after):
        seen += [entry.name for entry in entries]
        after = entries[-1].cookie
        if step < 3:
            await change(drive, step)
        step += 1
    drive.fs.releasedir(fh)
    assert step > 2
    assert sorted(name for name in seen if name[0] == "f") == sorted(f"f{n}" for n in range(COUNT))
    assert len(seen) == len(set(seen))


async def test_renamed_file_is_listed_under_new_name(drive: Drive) -> None:
    for number in range(COUNT):
        await drive.remote_file(number + 1, f"f{number}", b"")
    fh = await drive.fs.opendir(ROOT)
    entries = await drive.fs.readdir(fh, 0)
    await drive.fs.rename(ROOT, f"f{COUNT - 1}", ROOT, "elsewhere", 0)
    seen = [entry.name for entry in entries]
    while entries := await drive.fs.readdir(fh, entries[-1].cookie):
        seen += [entry.name for entry in entries]
    drive.fs.releasedir(fh)
    assert sorted(seen) == sorted([*(f"f{n}" for n in range(COUNT - 1)), "elsewhere"])


async def test_rewound_directory_shows_new_names(drive: Drive) -> None:
    await drive.write_file("a", b"")
    fh = await drive.fs.opendir(ROOT)
    first = await drive.fs.readdir(fh, 0)
    await drive.write_file("b", b"")
    assert await drive.fs.readdir(fh, first[-1].cookie) == []
    assert [entry.name for entry in await drive.fs.readdir(fh, 0)] == ["a", "b"]
    drive.fs.releasedir(fh)


async def test_short_folder_continues_after_any_entry(drive: Drive) -> None:
    for name in ("a", "b"):
        await drive.write_file(name, b"")
    fh = await drive.fs.opendir(ROOT)
    first = await drive.fs.readdir(fh, 0)
    await drive.write_file("c", b"")
    assert [entry.name for entry in await drive.fs.readdir(fh, first[0].cookie)] == ["b"]
    again = await drive.fs.readdir(fh, 0)
    await drive.write_file("d", b"")
    assert [entry.name for entry in await drive.fs.readdir(fh, again[0].cookie)] == ["b", "c"]
    drive.fs.releasedir(fh)


async def test_offsets_survive_deletions(drive: Drive) -> None:
    for number in range(COUNT):
        await drive.remote_file(number + 1, f"f{number}", b"")
    fh = await drive.fs.opendir(ROOT)
    first = await drive.fs.readdir(fh, 0)
    there = first[99].cookie
    expected = first[100].name
    for entry in first[:50]:
        await drive.fs.unlink(ROOT, entry.name)
    assert (await drive.fs.readdir(fh, there))[0].name == expected
    drive.fs.releasedir(fh)


async def test_many_deleted_names_do_not_end_listing(drive: Drive) -> None:
    for number in range(COUNT):
        await drive.remote_file(number + 1, f"f{number}", b"")
    fh = await drive.fs.opendir(ROOT)
    first = await drive.fs.readdir(fh, 0)
    for number in range(COUNT - 1):
        await drive.fs.unlink(ROOT, f"f{number}")
    left = await drive.fs.readdir(fh, first[-1].cookie)
    assert [entry.name for entry in left] == [f"f{COUNT - 1}"]
    drive.fs.releasedir(fh)


async def test_closed_folder_keeps_no_snapshot(drive: Drive) -> None:
    await drive.write_file("a", b"")
    fh = await drive.fs.opendir(ROOT)
    await drive.fs.readdir(fh, 0)
    drive.fs.releasedir(fh)
    assert drive.fs._snapshots._taken == {}
