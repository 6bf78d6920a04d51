"""Pauses, accounts that only read, and logins that die: what each means for programs and for the queue."""

import errno
import os
import time
from collections.abc import Awaitable

import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.replica import kv_store
from cmsfs.runtime import clock
from cmsfs.service.access import calls
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from cmsfs.vfs.tree.attributes import SetAttr
from daemon.account.pausing import Pausing
from daemon.core.health import HealthState
from daemon.core.request_scheduler import Priority, with_priority
from tests.support.daemon_drive import Drive, Remote, Starting

MONTH = 30 * 86_400


async def test_while_paused_changes_gather_and_reads_are_served(drive: Drive, other: Remote) -> None:
    await other.file("f", b"theirs")
    await drive.names()
    await drive.agents.pause(None)
    assert drive.agents.health.state is HealthState.PAUSED
    await drive.write("mine", b"ours")
    assert await drive.read("f") == b"theirs"
    assert (await drive.agents.status()).health.state == "paused"
    with pytest.raises(errors.UserError, match="paused"):
        await drive.agents.sync()
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert await other.paths() == ["f"]
    await drive.agents.resume()
    assert drive.agents.health.is_online
    await drive.sync()
    assert await other.paths() == ["f", "mine"]


async def test_a_pause_outlives_a_restart(starting: Starting) -> None:
    async with starting() as drive:
        await drive.agents.pause(3600)
    async with starting() as drive:
        assert drive.agents.health.is_paused
        told = (await drive.agents.status()).health
        assert "Resumes at" in told.reason
        assert 3500 < told.paused_until.timestamp() - time.time() <= 3600
        await drive.agents.resume()
    async with starting() as drive:
        assert not drive.agents.health.is_paused


async def test_a_pause_ends_when_its_time_has_come(drive: Drive, nursery: trio.Nursery) -> None:
    nursery.start_soon(drive.agents.pausing.run)
    await drive.agents.pause(0.2)
    assert drive.agents.health.is_paused
    with trio.fail_after(5):
        await drive.agents.health.reachable()
    assert kv_store.get(drive.db, kv_store.PAUSED) is None


async def test_a_clock_that_is_set_back_prolongs_no_pause(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's clock was ahead by a month when the user paused for an hour."""
    right = clock.time
    async with starting() as drive:
        monkeypatch.setattr(clock, "time", lambda: right() + MONTH)
        await drive.agents.pause(3600)
        monkeypatch.setattr(clock, "time", right)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.agents.pausing.run)
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        assert "Resumes at" in drive.agents.health.reason
    async with starting() as drive:
        until = drive.agents.pausing.until
        assert until is not None
        assert 3500 < until.timestamp() - right() <= 3600


async def test_pause_expires_while_stopped(drive: Drive, nursery: trio.Nursery) -> None:
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.PAUSED, str(time.time() - 5)))
    late = Pausing(drive.db, drive.agents.health, drive.agents.pace)
    nursery.start_soon(late.run)
    with trio.fail_after(5):
        await drive.agents.health.reachable()


async def test_paused_scheduler_serves_waiting_programs_only(drive: Drive) -> None:
    pace = drive.agents.pace
    await drive.agents.pause(None)
    async with pace.turn("search"):
        pass
    went = trio.Event()

    async def upload() -> None:
        with with_priority(Priority.UPLOAD):
            async with pace.turn("upload"):
                went.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upload)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert not went.is_set()
        assert (await drive.agents.status()).budget.queues["upload"].waiting == 1
        await drive.agents.resume()
        with trio.fail_after(5):
            await went.wait()


async def test_error_resolved_during_pause_is_cleared(starting: Starting) -> None:
    async with starting(agents=()) as drive:
        await _trouble_during_a_pause(drive)


async def _trouble_during_a_pause(drive: Drive) -> None:
    health = drive.agents.health
    told: list[bool] = []
    health.subscribe(lambda: told.append(health.can_ask))
    health.failed(errors.OAuthError("invalid_client", "no such client"))
    await drive.agents.pause(None)
    assert (health.state, health.can_ask) == (HealthState.PAUSED, False)
    with pytest.raises(PermissionError):
        health.check()
    health.answered()
    assert told == [False, False, True]
    assert (health.state, health.can_ask, health.may_work) == (HealthState.PAUSED, True, False)
    await drive.agents.resume()
    assert health.state is HealthState.ONLINE


async def test_an_account_that_only_reads(drive: Drive, other: Remote, service: Store, user: int) -> None:
    await other.file("f", b"theirs")
    ino = await drive.ino("f")
    set_status = "UPDATE account SET status = ? WHERE id = ?"
    await service.write(lambda conn: conn.execute(set_status, ("cannot_delete_edit_upload", user)))
    await drive.agents.account.refresh()
    assert drive.agents.health.state is HealthState.READ_ONLY
    told = (await drive.agents.status()).health
    assert (told.state, "administrator" in told.reason) == ("read-only", True)
    assert await drive.read("f") == b"theirs"
    changes: list[Awaitable[object]] = [
        drive.write("f", b"x"),
        drive.write("g", b"x"),
        drive.unlink("f"),
        drive.mkdir("d"),
    ]
    changes += [drive.rename("f", "g"), drive.fs.setattr(ino, SetAttr(mtime_ns=1))]
    for change in changes:
        with pytest.raises(OSError, match="Read-only file system") as caught:
            await change
        assert caught.value.errno == errno.EROFS
    assert drive.ops() == []
    # As on any file system that is mounted to be read, modes say who might.
    assert drive.fs.getattr(ino).mode & 0o200
    await service.write(lambda conn: conn.execute(set_status, ("active", user)))
    await drive.agents.account.refresh()
    await drive.write("f", b"ours")


async def test_dead_login_keeps_queue_until_renewed(drive: Drive, other: Remote, service: Store) -> None:
    await other.file("f", b"theirs")
    await drive.names()

    async def secret(word: str) -> None:
        def txn(conn: Connection) -> None:
            conn.execute("UPDATE app SET secret_hash = ?", (calls.hashed(word),))
            if word != "secret":
                conn.execute("DELETE FROM token")

        await service.write(txn)

    await secret("changed")
    with pytest.raises(OSError, match="Permission denied") as caught:
        await drive.read("f")
    assert caught.value.errno == errno.EACCES
    assert drive.agents.health.state is HealthState.UNAUTHORISED
    # What is written now is kept, and said to be waiting.
    await drive.write("mine", b"ours")
    status = await drive.agents.status()
    assert status.health.state == "unauthorised"
    assert status.health.reason
    assert (status.queue.waiting, status.queue.held) == (1, 0)
    assert await drive.read("mine") == b"ours"
    # A handle that is open already still reads what is here.
    opened = await drive.fs.open(await drive.ino("mine"), os.O_RDONLY)
    assert await drive.fs.read(opened.fh, 0, 10) == b"ours"
    await drive.fs.release(opened.fh)
    await secret("secret")
    with trio.fail_after(60):
        await drive.agents.health.reachable()
    await drive.sync()
    assert await drive.read("f") == b"theirs"
    assert await other.read("mine") == b"ours"
