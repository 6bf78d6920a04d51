"""The manifest of unsent files: what was written finds its place again when the database is lost."""

import functools
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs import config, errors
from cmsfs.config import Settings
from cmsfs.journal import manifest
from daemon import manifest_writer
from daemon.fsck import __main__ as fsck
from daemon.push import recovered_files
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

BASE = bytes(range(256)) * 1200  # 300 kB
NEW = b"nobody else has this" * 9000


def lose(paths: config.Paths) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{paths.replica_db}{suffix}").unlink(missing_ok=True)


def damage(paths: config.Paths) -> None:
    lose(paths)
    paths.replica_db.write_bytes(b"no database" * 1000)


async def repair(settings: config.Settings) -> None:
    await trio.to_thread.run_sync(lambda: fsck.run(settings, repair=True))


EXPECTED = {
    "report": BASE[:100_000] + b"changed" + BASE[100_007:],
    "file": NEW,
    "sheet": b"two",
}


@pytest.fixture
async def left(starting: Starting, settings: Settings, other: Remote, network: Network) -> config.Settings:
    """A drive that was left with a changed file, a new one in a new folder, and a version that was sealed."""
    folder = await other.folder("docs")
    await other.file("report", BASE, folder)
    await other.file("sheet", b"one", folder)
    arrived, _ = network.gate("POST", "/content", before=True)
    async with starting() as drive:
        await drive.names()
        await drive.names("docs")
        await drive.write("docs/sheet", b"two")
        await arrived.wait()
    async with starting(agents=()) as drive:
        opened = await drive.fs.open(await drive.ino("docs/report"), os.O_WRONLY)
        await drive.fs.write(opened.fh, 100_000, b"changed")
        await drive.fs.flush(opened.fh)
        await drive.fs.release(opened.fh)
        await drive.mkdir("docs/new")
        await drive.write("docs/new/file", NEW)
    assert (settings.paths.drafts / _sha1(b"two")).exists()
    return settings


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


async def all_is_back(starting: Starting, other: Remote) -> None:
    async with starting() as drive:
        assert await drive.names("docs") == ["new", "report", "sheet"]
        await drive.sync()
        assert await drive.read("docs/report") == EXPECTED["report"]
        assert await drive.names() == ["docs"]
    for name, data in EXPECTED.items():
        assert await other.read(name) == data
    assert await other.paths() == ["docs/", "docs/new/", "docs/new/file", "docs/report", "docs/sheet"]
    # The same items, in a next version.
    assert await other.versions((await other.find("report")).id) == 2
    assert await other.versions((await other.find("sheet")).id) == 2


@pytest.mark.parametrize("how", [lose, damage])
async def test_repair_puts_unsent_files_back(
    left: config.Settings, starting: Starting, other: Remote, how: Any
) -> None:
    how(left.paths)
    await repair(left)
    assert recovered_files.waiting(left.paths.recovered) == []
    await all_is_back(starting, other)


async def test_lost_database_restores_unsent_files(
    left: config.Settings, starting: Starting, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("the local database was lost")
    lose(left.paths)
    await all_is_back(starting, other)


async def test_a_version_that_came_meanwhile_is_not_overwritten(
    left: config.Settings, starting: Starting, other: Remote
) -> None:
    await other.write((await other.find("sheet")).id, b"theirs")
    lose(left.paths)
    await repair(left)
    async with starting() as drive:
        await drive.sync()
        await drive.poll()
        names = await drive.names("docs")
        assert await drive.read("docs/sheet") == b"theirs"
        (copy,) = [name for name in names if name.startswith("sheet (conflicted copy of ")]
        assert await drive.read(f"docs/{copy}") == b"two"


async def test_a_damaged_database_names_its_repair(
    left: config.Settings, starting: Starting, expect_log: ExpectLog
) -> None:
    damage(left.paths)
    expect_log("the database cannot be read")
    with pytest.raises(errors.UserError, match=r"cmsfs fsck --repair"):
        async with starting():
            pass


async def test_misplaced_bytes_are_reported_until_dismissed(
    left: config.Settings, starting: Starting, other: Remote
) -> None:
    (left.paths.drafts / manifest.NAME).unlink()
    lose(left.paths)
    await repair(left)
    async with starting() as drive:
        found = (await drive.agents.conflicts()).recovered
        assert {Path(one.path).stat().st_size for one in found} >= {len(NEW), len(b"two")}
        assert (await drive.agents.status()).recovered == len(found)
        assert str(left.paths.recovered) in drive.agents.recovered()
        drive.agents.dismiss_recovered()
        assert (await drive.agents.conflicts()).recovered == []
        assert drive.agents.recovered() == ""
        assert all(Path(one.path).exists() for one in found)
        (left.paths.recovered / "another").write_bytes(b"x")
        assert [Path(one.path).name for one in (await drive.agents.conflicts()).recovered] == ["another"]


async def test_the_manifest_follows_changes(drive: Drive, nursery: trio.Nursery) -> None:
    state = drive.agents.state
    keep = functools.partial(manifest_writer.run, rest_seconds=0.01)
    nursery.start_soon(keep, state.db, state.drafts, drive.agents.commit)

    def written() -> set[str]:
        return {one.path for one in manifest.read(state.drafts.root).entries.values()}

    async def named(path: str) -> None:
        with trio.fail_after(20):
            while path not in written():  # noqa: ASYNC110  (a file tells nobody)
                await trio.sleep(0.01)

    await drive.agents.pause(None)
    await drive.write("first", b"1")
    await named("/first")
    await drive.mkdir("folder")
    await drive.rename("first", "folder/second")
    await named("/folder/second")


async def test_an_unreadable_manifest_is_none(tmp_path: Path, expect_log: ExpectLog) -> None:
    (tmp_path / manifest.NAME).write_bytes(b'{"entries": {"1.draft": {}}}')
    expect_log("cannot be read")
    assert manifest.read(tmp_path) == manifest.Manifest()
