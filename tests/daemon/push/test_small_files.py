"""Many small files at once: what they cost, and what may happen between being made ready and being sent."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network
from tests.support.patience import crowding

NAMES = [f"f{number:02}" for number in range(12)]


async def write_unsent(drive: Drive) -> None:
    """The files, which are all due at once when the pause ends."""
    drive.agents.health.pause("the test")
    for name in NAMES:
        await drive.write(name, name.encode())


async def under_way(drive: Drive, network: Network) -> trio.Event:
    """All are made ready, and the first upload has reached the service; the event lets it go on."""
    await write_unsent(drive)
    arrived, go = network.gate("POST", "/files/content", before=True)
    with drive.agents.push.hurrying():
        drive.agents.health.resume()
        await arrived.wait()
    assert {state for _, state, _ in drive.ops()} == {"running"}
    return go


@pytest.fixture
async def alone(starting: Starting) -> Starting:
    """A drive that sends one file at a time."""
    return lambda **others: starting(upload_workers=1, **others)


async def test_small_files_cost_a_transaction_each(drive: Drive, other: Remote) -> None:
    await drive.write("first", b"x")
    await drive.sync()
    await write_unsent(drive)
    count = 0

    def note() -> None:
        nonlocal count
        count += 1

    drive.db.on_transaction_end, before = note, drive.db.on_transaction_end
    drive.agents.health.resume()
    await drive.sync()
    drive.db.on_transaction_end = before
    assert await other.paths() == sorted([*NAMES, "first"])
    assert count <= len(NAMES) + 8


async def test_what_is_changed_between_being_ready_and_being_sent(
    alone: Starting, network: Network, other: Remote
) -> None:
    async with alone() as drive:
        go = await under_way(drive, network)
        await drive.write("f05", b"newer bytes")
        await drive.rename("f06", "renamed")
        await drive.unlink("f07")
        await drive.write(".tmp", b"by rename")
        await drive.rename(".tmp", "f08")
        go.set()
        await drive.sync()
        expected = {name: name.encode() for name in NAMES if name not in ("f06", "f07")}
        expected |= {"f05": b"newer bytes", "renamed": b"f06", "f08": b"by rename"}
        assert await other.paths() == sorted(expected)
        assert {name: await other.read(name) for name in expected} == expected
        assert drive.ops() == []
        # What was noted ahead and not sent is known not to have been.
        assert network.count("OPTIONS", "/files/content") == 0
        assert drive.db.rows("SELECT * FROM unheard") == []


async def test_what_was_ready_and_not_sent_goes_after_a_restart(
    alone: Starting, network: Network, other: Remote
) -> None:
    async with alone() as drive:
        await under_way(drive, network)
    async with alone() as drive:
        await drive.sync()
        assert await other.paths() == NAMES
        assert {name: await other.read(name) for name in NAMES} == {name: name.encode() for name in NAMES}
        assert drive.db.rows("SELECT * FROM unheard") == []


async def test_what_is_ready_is_given_back_without_a_connection(
    alone: Starting, network: Network, other: Remote
) -> None:
    async with alone() as drive:
        go = await under_way(drive, network)
        drive.agents.health.pause("the test")
        go.set()
        with trio.fail_after(20):
            while "running" in {state for _, state, _ in drive.ops()}:
                await drive.agents.push._moved.wait()
        drive.agents.health.resume()
        await drive.sync()
        assert await other.paths() == NAMES


async def test_what_a_colleague_puts_in_the_way_is_kept_beside(
    alone: Starting, network: Network, other: Remote
) -> None:
    async with alone() as drive:
        go = await under_way(drive, network)
        await other.file("f09", b"theirs")
        go.set()
        await drive.sync()
        assert await other.read("f09") == b"theirs"
        copies = [path for path in await other.paths() if path.startswith("f09 (conflicted copy")]
        assert len(copies) == 1
        assert await other.read(copies[0]) == b"f09"


FAR: dict[str, Any] = {
    "profile": "server",
    "base_url": "http://test",
    "upload_url": "http://test",
    "auth_url": "http://test",
}


async def test_many_small_files_are_under_way_to_a_service_elsewhere(
    starting: Starting, network: Network, other: Remote
) -> None:
    async with starting(**FAR) as drive:
        gates = [network.gate("POST", "/files/content", before=True) for _ in NAMES]
        await write_unsent(drive)
        with drive.agents.push.hurrying(), trio.fail_after(20 * crowding()):
            drive.agents.health.resume()
            for arrived, _ in gates:
                await arrived.wait()
            for _, go in gates:
                go.set()
            await drive.sync()
    assert await other.paths() == sorted(NAMES)


async def test_small_files_pass_larger_ones(starting: Starting, network: Network, other: Remote) -> None:
    async with starting(upload_workers=2, **FAR) as drive:
        gates = [network.gate("POST", "/files/content", before=True) for _ in range(2)]
        for name in ("large a", "large b"):
            await drive.write(name, name.encode() * 10_000)
        for arrived, _ in gates:
            await arrived.wait()
        # One that has no worker, and that is there before the small one.
        await drive.write("large c", b"large c" * 10_000)
        with drive.agents.push.hurrying():
            await trio.testing.wait_all_tasks_blocked(0.05)
        await drive.write("small", b"small")
        with drive.agents.push.hurrying(), trio.fail_after(20 * crowding()):
            while "small" not in await other.paths():
                await trio.lowlevel.checkpoint()
        assert "large a" not in await other.paths()
        for _, go in gates:
            go.set()
        await drive.sync()
    assert await other.paths() == ["large a", "large b", "large c", "small"]
