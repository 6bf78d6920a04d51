"""What the guard has stopped is taken back: all that the program did, and nothing else."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import config, durability, errors
from cmsfs.vfs.heuristics import callers
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog

FILES = [f"docs/{number}.txt" for number in range(12)]


@pytest.fixture
def settings() -> config.Settings:
    # Nothing is sent by itself, so that all of it is still here.
    return config.Settings(settle_seconds=3600, network_seconds=5, guard_files=3, guard_deletions=5)


@pytest.fixture
def evil() -> Iterator["subprocess.Popen[bytes]"]:
    """A process on whose behalf calls are made."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.fixture(autouse=True)
def _noticed(expect_log: ExpectLog) -> None:
    expect_log(r"has (encrypted or renamed|deleted) .* Nothing more is uploaded")


async def _fill(drive: Drive) -> dict[str, bytes]:
    callers.CALLER.set(os.getpid())
    await drive.mkdir("docs")
    await drive.mkdir("docs/deep")
    for path in [*FILES, "docs/deep/below.txt"]:
        await drive.write(path, f"what {path} says\n".encode() * 50)
    await drive.sync()
    return await _tree(drive)


async def _tree(drive: Drive, folder: str = "docs") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in await drive.names(folder):
        path = f"{folder}/{name}"
        is_folder = drive.node(await drive.ino(path)).is_folder
        found |= await _tree(drive, path) if is_folder else {path: await drive.read(path)}
    return found


async def _spoil(drive: Drive) -> None:
    """In place; with another name; as a copy beside the original, which goes; names that go around."""
    await drive.unlink("docs/deep/below.txt")
    await drive.rmdir("docs/deep")
    for number, path in enumerate(FILES[:10]):
        data = os.urandom(900 + number)
        if number % 3 < 2:
            await drive.write(path, data)
        if number % 3 == 1:
            await drive.rename(path, f"{path}.locked")
        if number % 3 == 2:
            await drive.write(f"{path}.locked", data)
            await drive.unlink(path)
    await drive.rename(FILES[10], "docs/between")
    await drive.rename(FILES[11], FILES[10])
    await drive.rename("docs/between", FILES[11])
    await drive.mkdir("docs/more")
    await drive.write("docs/more/READ ME.txt", b"pay")


async def test_all_that_a_program_did_is_taken_back_and_nothing_else(
    starting: Starting,
    other: Remote,
    expect_log: ExpectLog,
    evil: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synced: set[Path] = set()
    sync = durability.sync

    def synced_and_noted(path: Path) -> None:
        synced.add(path)
        sync(path)

    monkeypatch.setattr(durability, "sync", synced_and_noted)
    expect_log(r"Nothing is uploaded or deleted until then")
    async with starting() as drive:
        before = await _fill(drive)
        remote = await other.paths()
        callers.CALLER.set(evil.pid)
        await _spoil(drive)
        assert drive.agents.guard.is_holding
        callers.CALLER.set(os.getpid())
        await drive.write("mine.txt", b"my own work")
        await drive.write("docs/deep.txt", b"in the same folder")
        with pytest.raises(errors.UserError, match="End sleep"):
            await drive.agents.undo_changes(dry_run=False)
    # Also after a restart: who did what is recorded.
    async with starting() as drive:
        seen = await drive.agents.undo_changes(dry_run=True)
        assert seen.running == [f"sleep (process {evil.pid})"]
        assert not [one for one in seen.changes if one.reason or "mine" in one.path]
        assert drive.agents.guard.is_holding
        assert await _tree(drive) != before
        evil.kill()
        evil.wait()
        done = await drive.agents.undo_changes(dry_run=False)
        assert done.changes == seen.changes
        assert {one.action for one in done.changes} == {"contents", "deletion", "new", "place"}
        assert not drive.agents.guard.is_holding
        after = await _tree(drive)
        assert after.pop("docs/deep.txt") == b"in the same folder"
        assert after == before
        assert "more" not in await drive.names("docs")
        kept = list(drive.agents.settings.paths.recovered.rglob("*.locked"))
        assert len(kept) == 6
        # The database has their bytes no more, so a power cut must not take these.
        assert synced >= set(kept)
        await drive.sync()
        assert await other.paths() == sorted([*remote, "docs/deep.txt", "mine.txt"])
        assert await _tree(drive) == {**before, "docs/deep.txt": b"in the same folder"}


async def test_a_whole_tree_that_was_deleted_is_there_again(
    drive: Drive, other: Remote, evil: "subprocess.Popen[bytes]"
) -> None:
    before = await _fill(drive)
    remote = await other.paths()
    callers.CALLER.set(evil.pid)
    await drive.unlink("docs/deep/below.txt")
    await drive.rmdir("docs/deep")
    for path in FILES:
        await drive.unlink(path)
    await drive.rmdir("docs")
    evil.kill()
    evil.wait()
    await drive.agents.undo_changes(dry_run=False)
    assert await _tree(drive) == before
    await drive.sync()
    assert await other.paths() == remote


async def test_what_cannot_be_taken_back_says_why_and_stays_held(
    drive: Drive, other: Remote, evil: "subprocess.Popen[bytes]"
) -> None:
    before = await _fill(drive)
    callers.CALLER.set(evil.pid)
    for path in FILES[:4]:
        await drive.rename(path, f"{path}.locked")
    ino = await drive.ino(FILES[5])
    handle = (await drive.agents.fs.open(ino, os.O_WRONLY)).fh
    await drive.agents.fs.write(handle, 0, b"half")
    evil.kill()
    evil.wait()
    done = await drive.agents.undo_changes(dry_run=False)
    assert [(one.path, bool(one.reason)) for one in done.changes if one.reason] == [(f"/{FILES[5]}", True)]
    assert drive.agents.guard.is_holding
    await drive.agents.fs.release(handle)
    await drive.agents.undo_changes(dry_run=False)
    assert not drive.agents.guard.is_holding
    assert await _tree(drive) == before
    with pytest.raises(errors.UserError, match="holds nothing"):
        await drive.agents.undo_changes(dry_run=False)
