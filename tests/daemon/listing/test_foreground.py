"""Background listings stand aside while a program waits for one, and for a moment afterwards."""

import trio
import trio.testing

from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority
from daemon.listing import foreground
from daemon.listing.foreground import Foreground


async def test_rest_is_as_long_as_the_listing(autojump_clock: trio.testing.MockClock) -> None:
    waited = Foreground()
    with waited.listing():
        await trio.sleep(0.5)
    began = trio.current_time()
    assert await waited.calm()
    assert trio.current_time() - began == 0.5
    assert not await waited.calm()


async def test_rest_after_a_long_listing_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    waited = Foreground()
    with waited.listing():
        await trio.sleep(60)
    began = trio.current_time()
    await waited.calm()
    assert trio.current_time() - began == foreground.CALM_SECONDS


async def test_one_listing_after_the_other_does_not_starve_the_background(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waited = Foreground()

    async def walk() -> None:
        while True:
            with waited.listing():
                await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(walk)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(foreground.MOST_SECONDS + 1):
            await waited.calm()
        nursery.cancel_scope.cancel()


async def test_background_listings_hold_nobody_up(autojump_clock: trio.testing.MockClock) -> None:
    waited = Foreground()
    with request_scheduler.with_priority(Priority.LISTING), waited.listing():
        assert not await waited.calm()
