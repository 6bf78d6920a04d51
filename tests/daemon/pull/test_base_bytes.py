"""A backup that an editor has left outlives its document, whatever becomes of that."""

import hashlib
import os
from typing import Any

import pytest
import trio

from cmsfs.config import Settings
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog, LogWatch
from tests.support.network import Network

OLD, NEW = b"as it was before" * 20_000, b"as it is now"
COPIED = b"the original"


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


async def save(drive: Drive, backup: str) -> None:
    """What an editor does that keeps the version before."""
    await drive.rename("doc", backup)
    await drive.write("doc", NEW)


def is_held(drive: Drive) -> bool:
    row = drive.db.row("SELECT dirty FROM content WHERE sha1 = ?", sha1(OLD))
    return row is not None and bool(row["dirty"])


@pytest.mark.parametrize("backup", ["doc~", "doc.bak"])
@pytest.mark.parametrize("sent", ["sent before", "sent at once"])
@pytest.mark.parametrize("read", ["never read", "read and evicted", "read"])
async def test_a_backup_outlives_the_deletion_of_its_document(
    drive: Drive, other: Remote, backup: str, sent: str, read: str
) -> None:
    await other.file("doc", OLD)
    await drive.names()
    if read != "never read":
        assert await drive.read("doc") == OLD
    await save(drive, backup)
    if sent == "sent before":
        await drive.sync()
    if read == "read and evicted" and not is_held(drive):
        drive.agents.state.blocks.evict(sha1(OLD))
    await drive.unlink("doc")
    await drive.sync()
    assert drive.ops() == []
    assert await drive.read(backup) == OLD
    assert await drive.names() == [backup]
    drive.agents.state.blocks.evict(sha1(OLD))
    assert await drive.read(backup) == OLD


async def test_a_backup_outlives_a_deletion_by_somebody_else(
    starting: Starting, other: Remote, settings: Settings
) -> None:
    number = await other.file("doc", OLD)
    async with starting() as drive:
        await drive.names()
        await save(drive, "doc~")
        await drive.sync()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.agents.base_bytes.run)
            with trio.fail_after(20):
                while not is_held(drive):
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert (drive.agents.state.drafts.root / sha1(OLD)).exists()
    await other.client.items.delete("file", number)
    for path in settings.paths.blocks.rglob("*"):
        if path.is_file():
            path.unlink()
    async with starting() as drive:
        await drive.poll()
        assert await drive.names() == ["doc~"]
        assert await drive.read("doc~") == OLD


async def test_a_backup_outlives_a_document_that_was_in_the_trash_for_a_while(
    drive: Drive, other: Remote, log_watch: LogWatch, expect_log: ExpectLog
) -> None:
    expect_log("no longer has the contents of a backup")
    number = await other.file("doc", OLD)
    await drive.names()
    await save(drive, "doc~")
    await drive.sync()
    drive.agents.state.blocks.evict(sha1(OLD))
    await other.client.items.delete("file", number)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.base_bytes.run)
        with trio.fail_after(20):
            while not log_watch.lines:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    await other.client.items.restore("file", number)
    await drive.poll()
    await drive.unlink("doc")
    await drive.sync()
    await other.client.items.purge("file", number)
    assert await drive.read("doc~") == OLD


async def test_what_the_service_is_to_copy_is_not_downloaded_before_its_original_goes(
    drive: Drive, other: Remote, network: Network
) -> None:
    await other.file("doc", OLD)
    original = await other.file("original", COPIED)
    assert sha1(COPIED) < sha1(OLD), "the order in which they are looked at"
    await drive.names()
    await save(drive, "doc~")
    await drive.write("doc", b"newer")
    await drive.sync()
    network.is_down = True
    drive.agents.health.suspect()
    with trio.fail_after(20):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    assert await drive.agents.copies.copy("/original", "/copy") == "/copy"
    asked, go = network.gate("POST", "/copy", before=True)
    network.is_down = False
    with trio.fail_after(20):
        await asked.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.base_bytes.run)
        with trio.fail_after(20):
            while not is_held(drive):
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert network.count("GET", f"/files/{original}/content") == 0
    await drive.agents.base_bytes.before_deletion(original)
    assert network.count("GET", f"/files/{original}/content") == 1
    await other.client.items.delete("file", original)
    await other.client.items.purge("file", original)
    go.set()
    await drive.sync()
    assert await other.read("copy") == COPIED


async def test_what_a_backup_held_goes_with_it(drive: Drive, other: Remote) -> None:
    await other.file("doc", OLD)
    await drive.names()
    await save(drive, "doc~")
    await drive.sync()
    await drive.agents.base_bytes.before_deletion(None)
    kept = drive.agents.state.drafts.root / sha1(OLD)
    assert kept.stat().st_size == len(OLD)
    ino = await drive.ino("doc~")
    await drive.unlink("doc~")
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
    with trio.fail_after(10):
        while kept.exists():
            await trio.lowlevel.checkpoint()
    assert await drive.read("doc") == NEW


async def test_document_deletion_waits_for_base_bytes(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    await other.file("doc", OLD)
    await drive.names()
    await save(drive, "doc~")
    await drive.sync()

    async def unreachable(content: Any) -> None:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(drive.agents.hydrator, "keep", unreachable)
    await drive.unlink("doc")
    with trio.move_on_after(1):
        await drive.sync()
    assert "doc" in await other.paths()
    monkeypatch.undo()
    await drive.sync()
    assert await other.paths() == []
    assert await drive.read("doc~") == OLD


async def test_what_a_change_lies_over_is_here_whatever_the_cache_has_room_for(
    starting: Starting, other: Remote
) -> None:
    data = os.urandom(3_000_000)
    number = await other.file("doc", data)
    await other.file("another", os.urandom(900_000))
    async with starting(cache_bytes=1_000_000, settle_seconds=3600.0) as drive:
        await drive.names()
        ino = await drive.ino("doc")
        opened = await drive.fs.open(ino, os.O_RDWR)
        await drive.fs.read(opened.fh, 0, 10)
        await drive.fs.write(opened.fh, 5, b"changed")
        await drive.fs.release(opened.fh)
        with trio.fail_after(30):
            while not drive.agents.state.blocks.is_complete(sha1(data)):
                await trio.lowlevel.checkpoint()
        await drive.read("another")
        await other.client.items.delete("file", number)
        await other.client.items.purge("file", number)
        assert await drive.read("doc") == data[:5] + b"changed" + data[12:]
