"""After a gap, nothing is missed: the drive is away while everything changes, and then shows the same tree.

Away is a daemon that does not run, or a network that does not carry; changed is everything that can be,
by oneself and by others, up to access that was given and taken.
"""

import sys

import pytest
import trio

from cmsfs import config
from cmsfs.config import Settings
from tests.support import random_changes
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

# Minutes of a free machine; the simulation has gaps with few changes.
CHANGES = 5_000

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=30, feed=request.param)


async def _same(drive: Drive, other: Remote) -> None:
    here, there = await random_changes.local_tree(drive), await random_changes.remote_tree(other)
    assert sorted(here) == sorted(there)
    assert here == there


async def _looked(drive: Drive, settings: config.Settings, *, missed: bool) -> None:
    """What the drive does by itself after a gap, now."""
    with trio.fail_after(600):
        await drive.agents.pull.poll()
        if missed or settings.feed == "search":
            # Access that was taken, and what was removed for good, is told by no search.
            await drive.agents.reconciler.once(full=missed)


def _tell(story: random_changes.Churn, drive: Drive, network: Network, before: int, what: str) -> None:
    asked = [path for method, path in network.requests[before:] if "/content" not in path]
    line = f"{what}: {sum(story.done.values())} changes, {len(asked)} requests ({story.done})"
    sys.stderr.write(f"{line}\n")


@pytest.mark.parametrize("seed", [1, 2])
async def test_while_the_daemon_was_down(
    starting: Starting,
    settings: Settings,
    other: Remote,
    ben: Remote,
    network: Network,
    seed: int,
) -> None:
    story = random_changes.Churn(seed, other, ben)
    await story.changes(CHANGES // 2)
    async with starting() as drive:
        await drive.agents.reconciler.once(full=False)
        await _same(drive, other)
    await story.changes(CHANGES)
    before = len(network.requests)
    async with starting() as drive:
        await _looked(drive, settings, missed=False)
        _tell(story, drive, network, before, f"down, {settings.feed}")
        await _same(drive, other)
        assert drive.ops() == []


async def test_while_offline(
    starting: Starting, settings: Settings, other: Remote, ben: Remote, network: Network
) -> None:
    story = random_changes.Churn(3, other, ben)
    await story.changes(CHANGES // 2)
    async with starting(agents=("health", "push", "fs", "pull")) as drive:
        await _same(drive, other)
        network.is_down = True
        drive.agents.health.suspect()
        with trio.fail_after(10):
            while drive.agents.health.can_ask:
                await drive.agents.health.changed()
        await story.changes(CHANGES)
        before = len(network.requests)
        network.is_down = False
        drive.agents.health.suspect()
        with trio.fail_after(10):
            await drive.agents.health.reachable()
        await _looked(drive, settings, missed=False)
        _tell(story, drive, network, before, f"offline, {settings.feed}")
        await _same(drive, other)


@pytest.mark.parametrize("settings", ["events"], indirect=True)
@pytest.mark.parametrize("lost", [0.0, 0.1])
async def test_events_lost_twice_and_out_of_order(
    starting: Starting,
    settings: Settings,
    other: Remote,
    ben: Remote,
    network: Network,
    lost: float,
) -> None:
    """What comes twice or in another order does no harm; what is lost is found by comparing."""
    story = random_changes.Churn(4, other, ben)
    await story.changes(CHANGES // 2)
    network.inner = stream = random_changes.Stream(network.inner, 5, lost=lost)
    async with starting() as drive:
        await _same(drive, other)
        before = len(network.requests)
        for _ in range(4):
            await story.changes(CHANGES // 4)
            await drive.agents.pull.poll()
        await _looked(drive, settings, missed=lost > 0)
        assert stream.twice and stream.moved and bool(stream.lost) == bool(lost)
        _tell(story, drive, network, before, f"events, {stream.lost} lost, {stream.twice} twice")
        await _same(drive, other)
