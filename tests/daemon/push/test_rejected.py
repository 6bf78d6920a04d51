"""Changes that the service refuses: told with the remedy, tried again, given up without losing a byte."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
import trio

from cmsfs import config, errors
from cmsfs.config import Settings
from cmsfs.replica import kv_store
from cmsfs.runtime import clock
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

QUOTA = "UPDATE account SET space_amount = ?"


async def quota(service: Store, size: int) -> None:
    await service.write(lambda conn: conn.execute(QUOTA, (size,)))


@pytest.fixture
async def refused(drive: Drive, service: Store, expect_log: ExpectLog) -> Drive:
    """A drive with a new file `large` and a new version of `old` that the quota refuses."""
    expect_log("the service rejected a change")
    await drive.write("old", b"old")
    await drive.sync()
    await quota(service, 10)
    await drive.write("large", b"x" * 100)
    await drive.write("old", b"y" * 100)
    await drive.sync()
    assert [op[1] for op in drive.ops()] == ["held", "held"]
    return drive


async def test_a_refusal_is_told_with_its_remedy(refused: Drive) -> None:
    value = (await refused.fs.getxattr(await refused.ino("large"), "user.cms.sync")).decode()
    assert value.startswith("held: ")
    assert "space" in value
    assert "discard" in value


async def test_one_is_tried_again(refused: Drive, other: Remote, service: Store) -> None:
    await quota(service, 10_000)
    await refused.agents.retry("/large")
    await refused.agents.push.drained()
    assert await other.read("large") == b"x" * 100
    assert [op[2] for op in refused.ops()] == ["/old"]
    with pytest.raises(errors.UserError, match="No rejected change of /large"):
        await refused.agents.retry("/large")


async def test_discarded_new_file_is_kept_elsewhere(refused: Drive, other: Remote) -> None:
    told = await refused.agents.discard("/large")
    kept = config.Paths("default").recovered / "large"
    assert str(kept) in told
    assert kept.read_bytes() == b"x" * 100
    assert (await refused.agents.conflicts()).recovered == []  # a person knows of it already
    assert await refused.names() == ["old"]
    await refused.write("large", b"s")
    await refused.agents.push.drained()
    assert await other.read("large") == b"s"


async def test_discarded_version_restores_the_previous(refused: Drive, other: Remote) -> None:
    await refused.agents.discard("/old")
    assert (config.Paths("default").recovered / "old").read_bytes() == b"y" * 100
    assert await refused.read("old") == b"old"
    assert await other.versions((await other.find("old")).id) == 1
    assert [op[2] for op in refused.ops()] == ["/large"]


async def test_what_is_not_held_is_not_given_up(drive: Drive) -> None:
    await drive.write("f", b"x")
    await drive.sync()
    with pytest.raises(errors.UserError, match="No change of /f was rejected"):
        await drive.agents.discard("/f")


@pytest.mark.parametrize("left", [b"", bytes(100_000), None], ids=["nothing", "zeros", "no file"])
async def test_bytes_that_a_power_cut_took_are_held(
    starting: Starting, network: Network, expect_log: ExpectLog, left: bytes | None
) -> None:
    """Nobody has them any more: asking again would never end."""
    expect_log("the service rejected a change")
    paths = config.Paths("default")
    async with starting() as drive:
        arrived, go = network.gate("POST", "/content", before=True)
        ino = await drive.write("f", b"x" * 100_000)
        await arrived.wait()
        sha1 = drive.node(ino).sha1
    content = paths.drafts / str(sha1)
    content.unlink() if left is None else content.write_bytes(left)
    with contextlib.closing(sqlite3.connect(paths.replica_db)) as conn, conn:
        conn.execute("UPDATE cursor SET value = '0' WHERE key = ?", (kv_store.CLEAN,))
        conn.execute("UPDATE cursor SET value = 'another' WHERE key = ?", (kv_store.BOOT_ID,))
    go.set()
    async with starting() as drive:
        await drive.sync()
        assert [op[1] for op in drive.ops()] == ["held"]
        told = await drive.agents.discard("/f")
        assert drive.ops() == []
    kept = paths.recovered / "f"
    assert (str(kept) in told) == kept.exists() == (left is not None)


async def test_conflict_copies_and_held_changes_are_listed(
    drive: Drive, other: Remote, network: Network, tmp_path: Path
) -> None:
    await drive.write("f.txt", b"base")
    await drive.sync()
    arrived, go = network.gate("POST", "/content", before=True)
    await drive.write("f.txt", b"ours")
    await arrived.wait()
    await other.write((await other.find("f.txt")).id, b"theirs")
    go.set()
    await drive.sync()
    found = await drive.agents.conflicts()
    assert found.held == []
    assert [copy.original for copy in found.copies] == ["/f.txt"]
    assert found.copies[0].path.startswith("/f (conflicted copy of ")


async def test_quota_refusal_is_retried_when_there_is_space(
    refused: Drive, other: Remote, service: Store, nursery: trio.Nursery
) -> None:
    nursery.start_soon(refused.agents.account.run)
    nursery.start_soon(refused.agents._retry_when_possible)
    # A refusal made the drive doubt what it knew of the quota; the next look brings the truth.
    await refused.agents.account.refresh()
    await quota(service, 10_000)
    refused.agents.account.doubt_space()
    with trio.fail_after(20):
        while refused.ops():
            await refused.agents.push._moved.wait()
    assert await other.read("large") == b"x" * 100


async def test_stale_local_file_is_kept_outside(
    drive: Drive, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.time()
    monkeypatch.setattr(clock, "time", lambda: now)
    data = b"what was not saved" * 1000
    await drive.names()
    await drive.write(".plan.swp", data)
    await drive.write("empty.tmp", b"")
    for _ in range(2):
        changes = await drive.fs.tidy(days=1, keep=drive.agents._recover_file)
        now += 86400
    assert sorted(change.name for change in changes) == [".plan.swp", "empty.tmp"]
    assert await drive.names() == []
    kept = [path for path in settings.paths.recovered.iterdir() if path.is_file()]
    assert [path.read_bytes() for path in kept] == [data]
