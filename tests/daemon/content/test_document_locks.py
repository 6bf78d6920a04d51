"""Documents that are open here in an office application, and their locks at the service."""

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import trio

from cmsfs import config
from cmsfs.models.content import items
from cmsfs.replica import kv_store
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.heuristics import callers
from daemon.content import document_locks
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt, shared_file


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, lock_open_documents=True, shared="root")


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`application()`: starts one, which makes the calls from then on."""
    monkeypatch.setattr(document_locks, "LOOK_SECONDS", 0.01)
    before, started = callers.CALLER.get(), []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "1000"]))
        callers.CALLER.set(started[-1].pid)
        return started[-1]

    yield start
    callers.CALLER.set(before)
    for one in started:
        one.kill()
        one.wait()


@pytest.fixture
async def claimed(drive: Drive, other: Remote, nursery: trio.Nursery) -> str:
    """`report.odt`, in our own drive, whose claims are made."""
    file_id = await other.file("report.odt", b"x")
    await drive.names()
    nursery.start_soon(drive.agents.document_locks.run)
    return file_id


async def has_lock(other: Remote, file_id: str, *, there: bool) -> items.Lock | None:
    with trio.fail_after(20):
        while True:
            found = (await other.client.items.get("file", file_id)).lock
            if (found is not None) is there:
                return found


@pytest.mark.parametrize("name", [".~lock.report.odt#", "~$report.odt"])
async def test_a_document_is_locked_while_it_is_open(drive: Drive, other: Remote, claimed: str, name: str):
    await drive.write(name, b"ada")
    held = await has_lock(other, claimed, there=True)
    assert held is not None
    assert held.expired_at is not None
    # Saving goes on as ever: one version more, and no conflict.
    await drive.write("report.odt", b"longer")
    await drive.sync()
    assert await other.read("report.odt") == b"longer"
    assert await drive.names() == sorted([name, "report.odt"])
    await drive.unlink(name)
    await has_lock(other, claimed, there=False)


async def test_document_with_new_version_is_unlocked(drive: Drive, other: Remote, claimed: str):
    opened = await drive.fs.open(await drive.ino("report.odt"), os.O_RDWR)
    await drive.write(".~lock.report.odt#", b"ada")
    await has_lock(other, claimed, there=True)
    # From another machine of the same person, who has the lock.
    await other.write(claimed, b"from the other machine")
    await drive.poll()
    await drive.unlink(".~lock.report.odt#")
    await has_lock(other, claimed, there=False)
    await drive.fs.release(opened.fh)


async def test_a_killed_application_leaves_no_lock_and_is_locked_for_again(
    drive: Drive,
    other: Remote,
    claimed: str,
    application: Callable[[], subprocess.Popen[bytes]],
):
    name = ".~lock.report.odt#"
    first = application()
    await drive.write(name, b"ada")
    await has_lock(other, claimed, there=True)
    first.kill()
    # As a zombie, and then gone.
    await has_lock(other, claimed, there=False)
    first.wait()
    assert name in await drive.names()
    # The next one takes the lock file for its own and only reads it.
    application()
    assert await drive.read(name) == b"ada"
    opened = await drive.fs.open(await drive.ino("report.odt"), os.O_RDWR)
    await has_lock(other, claimed, there=True)
    # It is killed, too.
    await drive.fs.release(opened.fh)
    await has_lock(other, claimed, there=False)
    # And the next, after its person has locked the document for longer.
    mine = await other.client.locks.lock(claimed, expires_at=datetime.now(UTC) + timedelta(days=2))
    await drive.poll()
    opened = await drive.fs.open(await drive.ino("report.odt"), os.O_RDWR)
    later = await other.file("later.odt", b"x")
    await drive.poll()
    await drive.write(".~lock.later.odt#", b"ada")
    await has_lock(other, later, there=True)
    await drive.fs.release(opened.fh)
    await drive.unlink(name)
    await drive.unlink(".~lock.later.odt#")
    await has_lock(other, later, there=False)
    assert (await other.client.items.get("file", claimed)).lock == mine.lock


async def test_an_application_that_ended_while_the_drive_was_off_leaves_no_lock(
    drive: Drive,
    other: Remote,
    nursery: trio.Nursery,
    application: Callable[[], subprocess.Popen[bytes]],
):
    locked = [await other.file(f"{name}.odt", b"x") for name in ("ended", "closed", "open")]
    await drive.names()
    ended = application()
    await drive.write(".~lock.ended.odt#", b"ada")
    gone = callers.current_process()
    application()
    await drive.write(".~lock.open.odt#", b"ada")
    programs = [gone, callers.current_process(), callers.current_process()]
    ended.kill()
    ended.wait()
    rows = [
        [ROOT, f".~lock.{name}.odt#", file_id, program, True]
        for name, file_id, program in zip(("ended", "closed", "open"), locked, programs, strict=True)
    ]
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.DOCUMENT_LOCKS, json.dumps(rows)))
    for file_id in locked:
        await other.client.locks.lock(file_id)
    nursery.start_soon(drive.agents.document_locks.run)
    for file_id in locked[:2]:
        await has_lock(other, file_id, there=False)
    renewed = await has_lock(other, locked[2], there=True)
    with trio.fail_after(20):
        while (await other.client.items.get("file", locked[2])).lock == renewed:
            await trio.lowlevel.checkpoint()
        while True:
            rows = json.loads(kv_store.get(drive.db, kv_store.DOCUMENT_LOCKS) or "")
            if [row[2] for row in rows if row[4]] == locked[2:]:
                break
            await trio.lowlevel.checkpoint()


async def test_a_lock_of_ones_own_outlasts_the_document(drive: Drive, other: Remote, claimed: str):
    other_document = await other.file("other.odt", b"x")
    mine = await other.client.locks.lock(claimed, expires_at=datetime.now(UTC) + timedelta(days=2))
    await drive.poll()
    for name in ("report.odt", "other.odt"):
        await drive.write(f".~lock.{name}#", b"ada")
    await has_lock(other, other_document, there=True)
    for name in ("report.odt", "other.odt"):
        await drive.unlink(f".~lock.{name}#")
    await has_lock(other, other_document, there=False)
    assert (await other.client.items.get("file", claimed)).lock == mine.lock


async def test_unlockable_document_can_be_edited(drive: Drive, ben: Remote, user: int, nursery: trio.Nursery):
    file_id = await shared_file(drive, ben, "f.odt", "viewer", user)
    assert await attempt(drive.write("s/.~lock.f.odt#", b"ada")) in ("ok", errno.errorcode[errno.EACCES])
    assert await drive.read("s/f.odt") == b"one"
    assert (await ben.client.items.get("file", file_id)).lock is None
