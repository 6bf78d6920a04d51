"""Files changed before they were downloaded, and deleted at the service before the change was uploaded."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from cmsfs import config
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.replica.nodes import ROOT
from daemon.push.error_policy import LOST_BASE
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

CONTENT = bytes(range(256)) * 2000
CHANGED = b"x" * BLOCK
RESTORED = "an item was restored from the trash, because its contents are needed here"


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> config.Settings:
    profile = getattr(request, "param", "embedded")
    return config.Settings(
        profile=profile,
        base_url=f"{errno_probe.URL}/2.0",
        upload_url=f"{errno_probe.URL}/api/2.0",
        auth_url=errno_probe.URL,
        settle_seconds=3600,
        network_seconds=5,
    )


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry soon: a change is held after its last attempt only."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 0.2)


async def change(drive: Drive, network: Network, path: str) -> None:
    """Go offline and overwrite the first block."""
    network.is_down = True
    opened = await drive.fs.open(await drive.ino(path), os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, CHANGED)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)


async def changed_offline(drive: Drive, other: Remote, network: Network) -> str:
    """Change a new file while offline, and return its id; the caller goes online again."""
    file = await other.file("file", CONTENT)
    await drive.names()
    await change(drive, network, "file")
    return file


async def changed_and_purged(drive: Drive, other: Remote, network: Network) -> str:
    """Change a new file while offline, and purge it there meanwhile; return its id, online again."""
    file = await changed_offline(drive, other, network)
    await other.client.items.delete("file", file)
    await other.client.items.purge("file", file)
    network.is_down = False
    return file


async def moved_over_another(drive: Drive, other: Remote, network: Network) -> tuple[str, str]:
    """Change a file that somebody deletes, move it over `doc`, and return the ids of both."""
    replaced = await other.file("doc", b"old")
    file = await changed_offline(drive, other, network)
    await other.client.items.delete("file", file)
    network.is_down = False
    await drive.poll()
    await drive.rename("file", "doc")
    return replaced, file


async def sync_held(drive: Drive, expect_log: ExpectLog) -> None:
    """Sync, and check that the upload is held."""
    expect_log("the service rejected a change")
    await drive.sync()
    assert [(kind, state) for kind, state, _ in drive.ops()] == [("upload", "held")]


@asynccontextmanager
async def being_restored(drive: Drive, network: Network, file: str) -> AsyncIterator[None]:
    """Sync, and enter the context once the file is restored, before the answer arrives."""
    restored, go_on = network.gate("POST", f"/files/{file}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await restored.wait()
        yield
        go_on.set()


def changed(content: bytes) -> bytes:
    return CHANGED + content[len(CHANGED) :]


@pytest.mark.parametrize("is_known", [False, True])
async def test_deleted_file_is_restored_as_what_it_was_changed_to(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_known: bool
) -> None:
    file = await changed_offline(drive, other, network)
    await other.client.items.delete("file", file)
    network.is_down = False
    if is_known:
        await drive.poll()
    expect_log(RESTORED)
    await drive.sync()
    assert await other.paths() == await drive.names() == ["file"]
    assert await other.read("file") == await drive.read("file") == changed(CONTENT)
    assert (await other.find("file")).id == file
    assert drive.ops() == []
    await drive.poll()
    assert await drive.names() == ["file"]


@pytest.mark.parametrize("is_shown", [False, True])
@pytest.mark.parametrize("is_newer", [False, True])
async def test_what_only_lends_its_contents_is_restored_under_another_name_and_deleted_again(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_newer: bool, is_shown: bool
) -> None:
    """A file that somebody deleted was moved over another one, and has the item of that."""
    replaced = await other.file("doc", b"old")
    file = await other.file("file", CONTENT, parent=await other.folder("sub"))
    await drive.names("sub")
    await change(drive, network, "sub/file")
    if is_newer:
        await other.write(file, b"newer")
    await other.client.items.delete("file", file)
    network.is_down = False
    await drive.poll()
    await drive.rename("sub/file", "doc")
    expect_log(RESTORED)
    async with being_restored(drive, network, file):
        if is_shown:
            await drive.poll()
    await drive.sync()
    await drive.poll()
    assert drive.ops() == []
    assert await other.paths() == ["doc", "sub/"]
    assert await drive.names() == ["doc", "sub"]
    assert await drive.names("sub") == []
    assert await other.read("doc") == await drive.read("doc") == changed(CONTENT)
    assert (await other.find("doc")).id == replaced
    assert (await other.client.items.restore("file", file)).id == file  # from the trash


async def test_what_only_lends_its_contents_is_left_if_a_program_changes_it_meanwhile(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    """Somebody renames it before the answer arrives, and a poll shows it."""
    _, file = await moved_over_another(drive, other, network)
    expect_log(RESTORED)
    async with being_restored(drive, network, file):
        await other.client.items.update("file", file, name="theirs")
        await drive.poll()
        await drive.write("theirs", b"mine")
    await drive.sync()
    await drive.poll()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == ["doc", "theirs"]
    assert await other.read("doc") == await drive.read("doc") == changed(CONTENT)
    assert await other.read("theirs") == await drive.read("theirs") == b"mine"
    assert (await other.find("theirs")).id == file


async def test_file_whose_item_goes_while_its_contents_are_restored_becomes_what_was_restored(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    replaced, file = await moved_over_another(drive, other, network)
    expect_log(RESTORED)
    async with being_restored(drive, network, file):
        await other.client.items.delete("file", replaced)
        await drive.poll()
    await drive.sync()
    await drive.poll()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == ["doc"]
    assert await other.read("doc") == await drive.read("doc") == changed(CONTENT)
    assert (await other.find("doc")).id == file


async def test_newer_version_in_the_trash_is_kept_beside_the_change(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    file = await changed_offline(drive, other, network)
    await other.write(file, b"newer")
    await other.client.items.delete("file", file)
    network.is_down = False
    expect_log(RESTORED)
    await drive.sync()
    names = await other.paths()
    assert await drive.names() == names
    copy = next(name for name in names if CONFLICT_MARK in name)
    assert {await other.read(name) for name in names} == {b"newer", changed(CONTENT)}
    assert await other.read(copy) == await drive.read(copy) == changed(CONTENT)


async def test_file_renamed_here_is_restored_under_its_new_name(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    file = await changed_offline(drive, other, network)
    await drive.rename("file", "renamed")
    await other.file("made since", b"x")
    await other.client.items.delete("file", file)
    network.is_down = False
    expect_log(RESTORED)
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["made since", "renamed"]
    assert await other.read("renamed") == changed(CONTENT)


@pytest.mark.parametrize("settings", ["specification"], indirect=True)
async def test_without_restoring_the_change_is_held_and_kept(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    file = await changed_offline(drive, other, network)
    await other.client.items.delete("file", file)
    network.is_down = False
    await sync_held(drive, expect_log)
    assert drive.db.rows("SELECT error FROM op")[0]["error"] == LOST_BASE


async def test_file_that_somebody_restores_meanwhile_is_not_held(
    drive: Drive, other: Remote, network: Network
) -> None:
    file = await changed_offline(drive, other, network)
    await other.client.items.delete("file", file)
    restoring, restore = network.gate("POST", f"/files/{file}", before=True)
    network.is_down = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await restoring.wait()
        await other.client.items.restore("file", file)
        restore.set()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == ["file"]
    assert await other.read("file") == await drive.read("file") == changed(CONTENT)
    assert (await other.find("file")).id == file


async def test_contents_of_a_purged_file_come_from_another_that_has_them(
    drive: Drive, other: Remote, network: Network
) -> None:
    """As a backup that somebody made of it."""
    await other.file("copy", CONTENT)
    await changed_and_purged(drive, other, network)
    await drive.sync()
    await drive.poll()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == ["copy", "file"]
    assert await other.read("file") == await drive.read("file") == changed(CONTENT)
    assert await drive.read("copy") == CONTENT


async def test_purged_file_is_held_and_kept(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    await changed_and_purged(drive, other, network)
    await sync_held(drive, expect_log)


async def test_contents_that_another_item_has_are_downloaded_from_there(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The item with which they were asked for turns out to be deleted during the request."""
    await other.file("copy", CONTENT)
    file = await changed_and_purged(drive, other, network)
    asked, go_on = network.gate("GET", f"/files/{file}/content")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await asked.wait()
        await drive.poll()
        go_on.set()
    assert drive.ops() == []
    await drive.poll()
    assert await other.paths() == await drive.names() == ["copy", "file"]
    assert await other.read("file") == changed(CONTENT)
    assert await other.read("copy") == CONTENT


async def left_as_a_backup(drive: Drive, other: Remote, network: Network) -> str:
    """Rename a file that was never downloaded to a backup, make it anew and remove that, while the service
    deletes it: only the trash has the backup's contents.  Return the file's id."""
    file = await other.file("file", CONTENT)
    await drive.names()
    network.is_down = True
    await drive.rename("file", "file.2")
    await drive.write("file", b"new")
    await drive.fs.unlink(ROOT, "file")
    await other.client.items.delete("file", file)
    network.is_down = False
    return file


async def test_deleted_file_is_restored_as_the_backup_that_needs_its_contents(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    await left_as_a_backup(drive, other, network)
    expect_log(RESTORED)
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["file.2"]
    assert await other.read("file.2") == await drive.read("file.2") == CONTENT
    assert drive.ops() == []


@pytest.mark.parametrize("settings", ["specification", "embedded"], indirect=True)
async def test_without_restoring_the_backup_is_held_and_its_old_name_is_free(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    file = await left_as_a_backup(drive, other, network)
    await other.client.items.purge("file", file)
    expect_log("the service no longer has the contents of a backup")
    expect_log("the service rejected a change")
    await drive.sync()
    await drive.write("file", b"newer")
    await drive.sync()
    assert [(kind, state) for kind, state, _ in drive.ops()] == [("upload", "held")]
    assert await other.paths() == ["file"] and await other.read("file") == b"newer"
    assert await drive.names() == ["file", "file.2"]


@pytest.mark.parametrize("is_ours", [True, False])
async def test_backup_whose_name_is_in_use_is_restored_only_if_the_holder_has_other_contents(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_ours: bool
) -> None:
    """An earlier upload of it may have the name, or somebody else's file."""
    await left_as_a_backup(drive, other, network)
    await other.file("file.2", CONTENT if is_ours else b"theirs")
    if not is_ours:
        expect_log(RESTORED)
    await drive.sync()
    await drive.poll()
    names = await other.paths()
    assert await drive.names() == names
    assert drive.ops() == []
    copies = [name for name in names if CONFLICT_MARK in name]
    assert len(copies) == len(names) - 1 == (0 if is_ours else 1)
    assert {await drive.read(name) for name in names} == {CONTENT, *([] if is_ours else [b"theirs"])}


@pytest.mark.parametrize("is_there", [True, False])
async def test_item_is_deleted_though_a_file_of_this_machine_only_needs_its_contents(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_there: bool
) -> None:
    """They are downloaded before, if they are still there: nobody uploads such a file."""
    file = await other.file("file", CONTENT)
    await drive.names()
    network.is_down = True
    await drive.rename("file", "file~")
    await drive.write("file", b"new")
    opened = await drive.fs.open(await drive.ino("file~"), os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, CHANGED)
    await drive.fs.unlink(ROOT, "file")
    if not is_there:
        await other.client.items.delete("file", file)
        expect_log("the service no longer has the contents of a backup")
    network.is_down = False
    await drive.sync()
    await drive.fs.release(opened.fh)
    assert drive.ops() == []
    assert await other.paths() == []
    assert await drive.names() == ["file~"]
    if is_there:
        assert await drive.read("file~") == changed(CONTENT)


@pytest.mark.parametrize("settings", ["specification", "embedded"], indirect=True)
@pytest.mark.parametrize("is_same", [True, False])
async def test_backup_that_cannot_be_restored_gives_its_name_to_who_has_it(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog, is_same: bool
) -> None:
    """Another drive may have sent the same backup: then that is the file."""
    file = await left_as_a_backup(drive, other, network)
    await other.client.items.purge("file", file)
    theirs = CONTENT if is_same else b"theirs"
    await other.file("file.2", theirs)
    if not is_same:
        expect_log("the service no longer has the contents of a backup")
        expect_log("the service rejected a change")
    await drive.sync()
    await drive.poll()
    assert [state for _, state, _ in drive.ops()] == ([] if is_same else ["held"])
    names = await drive.names()
    assert [name for name in names if CONFLICT_MARK not in name] == await other.paths() == ["file.2"]
    assert len(names) == (1 if is_same else 2)
    assert await drive.read("file.2") == theirs
