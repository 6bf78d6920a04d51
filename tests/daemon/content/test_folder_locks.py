"""Folders that are locked at the service: EPERM at the call, with one line that says why."""

import pytest

from cmsfs.replica import tree
from daemon.content.folder_locks import FolderLockGuard
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


async def test_a_locked_folder_stays_where_it_is(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("is not moved or renamed: Ada Tester has locked the folder")
    expect_log("is not deleted: Ada Tester has locked the folder")
    locked = await other.folder("locked")
    await other.folder("free")
    await drive.names()
    await other.client.folder_locks.lock(locked)
    assert await attempt(drive.rename("locked", "moved")) == "EPERM"
    assert await attempt(drive.rename("locked", "free/locked")) == "EPERM"
    assert await attempt(drive.rmdir("locked")) == "EPERM"
    # What replaces an empty folder deletes it.
    assert await attempt(drive.rename("free", "locked")) == "EPERM"
    assert await drive.names() == ["free", "locked"]
    assert drive.ops() == []
    # What is in it is as free as before.
    await drive.write("locked/f", b"1")
    await drive.unlink("locked/f")
    assert await attempt(drive.rename("free", "moved")) == "ok"


async def test_the_lock_is_known_without_a_connection(
    drive: Drive,
    other: Remote,
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    expect_log: ExpectLog,
) -> None:
    monkeypatch.setattr("daemon.content.folder_locks.LOCKED_SECONDS", 0.0)
    expect_log("has locked the folder")
    await other.client.folder_locks.lock(await other.folder("locked"))
    await drive.names()
    assert await attempt(drive.rmdir("locked")) == "EPERM"
    network.is_down = True
    assert await attempt(drive.rmdir("locked")) == "EPERM"
    # After a restart, too.
    guard = FolderLockGuard(drive.db, other.client, drive.agents.health)
    node = tree.find(drive.db, await drive.ino("locked"))
    assert node is not None
    assert await attempt(guard.check(node, removes=True)) == "EPERM"


async def test_who_takes_the_lock_away_can_move_it(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    expect_log("has locked the folder")
    monkeypatch.setattr("daemon.content.folder_locks.LOCKED_SECONDS", 0.0)
    locked = await other.folder("locked")
    await other.client.folder_locks.lock(locked)
    await drive.names()
    assert await attempt(drive.rename("locked", "moved")) == "EPERM"
    assert await other.client.folder_locks.unlock(locked)
    assert await attempt(drive.rename("locked", "moved")) == "ok"


async def test_many_folders_cost_few_questions(drive: Drive, other: Remote) -> None:
    for number in range(20):
        await other.folder(f"d{number}")
    await drive.names()
    for number in range(20):
        assert await attempt(drive.rmdir(f"d{number}")) == "ok"
    assert drive.agents.health.requests["locks"] == 8


async def test_a_service_that_does_not_answer_is_not_asked_again_at_once(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.content.folder_locks.WAIT_SECONDS", 0.0)
    for name in ("a", "b", "c"):
        await other.folder(name)
    await drive.names()
    for name in ("a", "b", "c"):
        assert await attempt(drive.rmdir(name)) == "ok"
    assert drive.agents.health.requests["locks"] == 1


async def test_folders_of_this_drive_alone_cost_none(drive: Drive) -> None:
    await drive.mkdir("new")
    assert await attempt(drive.rename("new", "newer")) == "ok"
    assert await attempt(drive.rmdir("newer")) == "ok"
    assert drive.agents.health.requests["locks"] == 0
