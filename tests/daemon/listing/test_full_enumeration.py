"""The enumeration of everything: two windows at a time, each of them read once, over restarts, too."""

from collections.abc import Iterator

import trio
import trio.testing

from cmsfs.replica import kv_store
from daemon.listing.full_enumeration import EnumerationPlan
from daemon.listing.search_windows import SearchWindow
from tests.daemon.listing.conftest import FILES, FOLDERS, counted, search_only
from tests.support.daemon_drive import Drive, Starting
from tests.support.network import Network


def plan(drive: Drive) -> EnumerationPlan:
    """What is left of it, as stored."""
    stored = kv_store.get(drive.db, kv_store.CRAWL)
    assert stored is not None
    return EnumerationPlan.model_validate_json(stored)


def older(network: Network, asked: int = 0) -> Iterator[str]:
    """The requests for the older of the two windows of files, from the beginning of time."""
    return (path for _, path in network.requests[asked:] if "created_at_range=%2C" in path)


@search_only
async def test_a_window_begins_before_the_last_page_of_another_is_there(
    large: None, drive: Drive, network: Network
) -> None:
    reading, go = network.gate("GET", "offset=400", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        await reading.wait()
        with trio.fail_after(5):
            while not any("offset=200" in path for path in older(network)):
                await trio.testing.wait_all_tasks_blocked(0.01)
        go.set()
    assert counted(drive) == FOLDERS * (FILES + 1)


@search_only
async def test_of_two_windows_under_way_the_unfinished_one_is_read_after_a_restart(
    large: None, starting: Starting, network: Network
) -> None:
    async with starting() as drive, trio.open_nursery() as nursery:
        reading, _ = network.gate("GET", "offset=400", before=True)
        nursery.start_soon(drive.agents.crawler.once)
        await reading.wait()
        with trio.fail_after(5):
            while any(window.kind == "file" and window.start is None for window in plan(drive).windows):
                await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    async with starting() as drive:
        left = plan(drive)
        (newer,) = (window for window in left.windows if window.kind == "file")
        assert newer != SearchWindow(kind="file")
        # What came of it does not count yet, since it will come again.
        assert left.items < FOLDERS * FILES / 2
        asked = len(network.requests)
        await drive.agents.crawler.once()
        assert not list(older(network, asked))
        assert counted(drive) == FOLDERS * (FILES + 1)
        assert kv_store.get(drive.db, kv_store.CRAWL) is None
