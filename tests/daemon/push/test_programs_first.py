"""Uploads stand aside while programs change many things, and for so long only."""

from collections.abc import Iterator

import pytest
import trio

from cmsfs import config
from cmsfs.journal import group_commit
from cmsfs.runtime import clock
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

NAMES = [f"f{number:02}" for number in range(5)]


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self, now: float) -> None:
        self.now = now


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    with monkeypatch.context() as patched:
        times = Clock(clock.monotonic())
        patched.setattr(clock, "monotonic", lambda: times.now)
        yield times


async def write_all(drive: Drive) -> None:
    """Write the files without a pause, and return when the push has looked at them."""
    for _ in range(group_commit.MANY_CHANGES):
        drive.agents.commit.note()
    for name in NAMES:
        await drive.write(name, name.encode())
    with trio.fail_after(20):
        while not drive.agents.push.programs.is_aside:
            await trio.lowlevel.checkpoint()


async def until_uploaded(other: Remote) -> None:
    with trio.fail_after(20):
        while await other.paths() != NAMES:
            await trio.lowlevel.checkpoint()


async def test_nothing_is_sent_until_programs_pause(
    drive: Drive, other: Remote, network: Network, times: Clock
) -> None:
    await write_all(drive)
    assert network.count("POST", "/files/content") == 0
    assert {state for _, state, _ in drive.ops()} == {"ready"}
    times.now += 2 * group_commit.PAUSE_SECONDS
    await until_uploaded(other)


async def test_who_waits_for_the_push_is_not_kept_waiting(drive: Drive, other: Remote, times: Clock) -> None:
    await write_all(drive)
    await drive.sync()
    assert await other.paths() == NAMES


async def test_programs_that_never_pause_do_not_keep_uploads_from_starting(
    drive: Drive, other: Remote, times: Clock
) -> None:
    await write_all(drive)
    while times.now - drive.agents.commit.noted_since <= group_commit.ASIDE_SECONDS:
        times.now += group_commit.PAUSE_SECONDS / 20
        drive.agents.commit.note()
    await until_uploaded(other)


async def test_a_few_changes_are_sent_at_once(drive: Drive, other: Remote, times: Clock) -> None:
    await drive.write("one", b"1")
    with trio.fail_after(20):
        while await other.paths() != ["one"]:
            await trio.lowlevel.checkpoint()
