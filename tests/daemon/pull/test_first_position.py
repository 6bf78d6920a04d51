"""Where the events begin for a drive that started without a network, and lists at the same time."""

from functools import partial

import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.replica import kv_store
from daemon.pull import reconciler
from tests.support.daemon_drive import Remote, Starting
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    """Of a service that lists folders one by one."""
    addresses = dict.fromkeys(("base_url", "upload_url", "auth_url"), "http://service.test")
    made = config.Settings(settle_seconds=0, network_seconds=5)
    return made.model_copy(update={"profile": "box"} | addresses)


@pytest.mark.parametrize("by", ["contact", "pull"])
async def test_what_comes_between_a_listing_and_the_first_event_position_is_found(
    starting: Starting, other: Remote, network: Network, nursery: trio.Nursery, by: str
) -> None:
    """After a start without a network both are requested at once, and the listing is answered later; so, too,
    if another process takes over a drive that has not reached the service yet."""
    await other.file("old", b"x")
    network.is_down = True
    async with starting(agents=("fs",)) as drive:
        network.is_down = False
        listed, go = network.gate("GET", "/folders/0/items")
        nursery.start_soon(drive.agents.crawler.once)
        await listed.wait()
        await other.file("new", b"y")
        if by == "pull":
            nursery.start_soon(drive.agents.pull.run)
        else:
            nursery.start_soon(partial(drive.agents.contact, is_shown=True))
        with trio.fail_after(5):
            while kv_store.get(drive.db, kv_store.EVENTS_POSITION) is None:
                await trio.testing.wait_all_tasks_blocked(0.01)
        go.set()
        assert "old" in await drive.names()
        await drive.agents.crawler.once()
        assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
        await drive.agents.reconciler.once(full=True)
        assert await drive.names() == ["new", "old"]


async def test_the_first_of_two_event_positions_counts(
    starting: Starting, other: Remote, network: Network, nursery: trio.Nursery
) -> None:
    network.is_down = True
    async with starting(agents=("fs",)) as drive:
        network.is_down = False
        asked, go = network.gate("GET", "/events")
        nursery.start_soon(drive.agents.pull.begin)
        await asked.wait()
        nursery.start_soon(drive.agents.pull.begin)
        await trio.testing.wait_all_tasks_blocked(0.01)
        go.set()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert network.count("GET", "/events") == 1
