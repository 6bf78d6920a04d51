"""The guard: a program that encrypts or deletes many files is noticed, and a person decides what is sent."""

import errno
import os
import re

import pytest
import trio

from cmsfs import config, errors
from cmsfs.replica.nodes import ROOT, NodeKind
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.heuristics.callers import CallingProgram
from cmsfs.vfs.heuristics.mass_changes import MassChange
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.patience import crowding

FILES = [f"docs/{number}.txt" for number in range(9)]
WORKERS = config.Settings().upload_workers


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, guard_files=3, guard_deletions=5)


async def _fill(drive: Drive) -> None:
    callers.CALLER.set(os.getpid())
    await drive.mkdir("docs")
    for path in FILES:
        await drive.write(path, f"what {path} says\n".encode() * 50)
    await drive.sync()


async def _held(drive: Drive) -> None:
    with trio.fail_after(20 * crowding()):
        while not drive.agents.guard.is_holding or any(state == "running" for _, state, _ in drive.ops()):
            await trio.lowlevel.checkpoint()


async def _encrypted(other: Remote) -> int:
    found = [(await other.read(path.rpartition("/")[2])) for path in FILES]
    return sum(not data.startswith(b"what") for data in found)


async def test_encrypted_files_are_held_until_a_person_says_so(
    starting: Starting, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log(r"has encrypted or renamed 3 files below /docs .* Nothing more is uploaded")
    async with starting() as drive:
        await _fill(drive)
        for path in FILES:
            await drive.write(path, os.urandom(900))
        await _held(drive)
        reached = await _encrypted(other)
        assert reached <= 3 + WORKERS
        with pytest.raises(errors.UserError, match="cmsfs guard"):
            await drive.agents.sync()
        # What others do comes all the same, and so do reads.
        await other.file("news.txt", b"new")
        await drive.poll()
        assert "news.txt" in await drive.names()
    expect_log(r"Nothing is uploaded or deleted until then")
    async with starting() as drive:
        assert drive.agents.guard.is_holding
        notice = (await drive.agents.conflicts()).guard
        assert notice is not None
        assert (notice.folder, notice.waiting) == ("/docs", len(FILES) - reached)
        assert [one.pid for one in notice.programs] == [os.getpid()]
        assert (await drive.agents.status()).guard == notice
        await drive.agents.allow_changes()
        await drive.sync()
        assert await _encrypted(other) == len(FILES)


async def test_deletions_are_held(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log(r"has deleted or emptied 5 files below /docs")
    await _fill(drive)
    for path in FILES:
        await drive.unlink(path)
    await _held(drive)
    assert len(await other.paths()) > len(FILES) - 5
    await drive.agents.allow_changes()
    await drive.sync()
    assert await other.paths() == ["docs/"]


async def test_new_and_compressed_files_are_no_alarm(drive: Drive) -> None:
    await _fill(drive)
    for path in FILES:
        await drive.write(f"{path}.jpg", b"\xff\xd8\xff\xe0" + os.urandom(900))
        await drive.write(f"{path}.key", os.urandom(900))
    await drive.sync()
    for path in FILES:
        await drive.write(f"{path}.jpg", b"\xff\xd8\xff\xe0" + os.urandom(900))
        await drive.write(f"{path}.key", os.urandom(900))
        await drive.write(path, b"another text, not more random than the first\n" * 40)
    await drive.sync()
    assert not drive.agents.guard.is_holding
    assert not drive.ops()


async def test_files_that_go_to_the_trash_one_by_one_are_deletions(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log(r"has deleted or emptied 5 files below /docs")
    expect_log(r"stays: .* has deleted or emptied 5 files")
    await _fill(drive)
    folder = await drive.ino("docs")
    for path in FILES[:5]:
        await drive.agents.trash.put(folder, path.rpartition("/")[2])
    assert drive.agents.guard.is_holding
    with pytest.raises(OSError, match=re.escape(os.strerror(errno.EBUSY))):
        await drive.agents.trash.put(folder, FILES[5].rpartition("/")[2])
    assert len(await other.paths()) == len(FILES) - 5 + 1


async def test_a_folder_that_goes_to_the_trash_counts_its_files(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log(rf"has deleted or emptied {len(FILES)} files below / ")
    await _fill(drive)
    await drive.agents.trash.put(ROOT, "docs")
    assert await other.paths() == []
    guard = drive.agents.guard
    assert guard.notice is not None
    assert guard.notice.deleted == len(FILES)
    assert [key for key in guard.traces.found.values() if key is not None and key[0] is NodeKind.FOLDER]


@pytest.mark.parametrize("way", ["by name", "when it is opened"])
async def test_files_that_are_emptied_are_deletions(drive: Drive, expect_log: ExpectLog, way: str) -> None:
    expect_log(r"has deleted or emptied 5 files below /docs")
    await _fill(drive)
    for path in FILES:
        ino = await drive.ino(path)
        if way == "by name":
            await drive.fs.setattr(ino, SetAttr(size=0))
        else:
            opened = await drive.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
            await drive.fs.release(opened.fh)
    await _held(drive)
    found = drive.agents.guard.traces.found
    assert set(found) >= {await drive.ino(path) for path in FILES}
    await drive.agents.allow_changes()
    await drive.sync()


async def test_what_goes_on_began_when_it_began(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log(r"has deleted or emptied 5 files")
    guard = drive.agents.guard
    evil, other = CallingProgram(7, "evil"), CallingProgram(8, "other")
    guard.changes.alarm(MassChange(1000.0, 0, 5, ((evil, 5),), "", ()))
    guard.changes.alarm(MassChange(5000.0, 3, 2, ((other, 5),), "", ()))
    notice = guard.notice
    assert notice is not None
    assert notice.since.timestamp() == 1000.0
    assert (notice.spoiled, notice.deleted) == (3, 5)
    assert [one.name for one in notice.programs] == ["other", "evil"]
    await guard.allow()
