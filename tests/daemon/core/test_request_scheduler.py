"""Who may ask, and when: nobody who waits is held up by the background, and no minute sees too much."""

import itertools

import trio
import trio.testing

from cmsfs import config
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority, RequestContext, RequestScheduler, with_priority


class Requests:
    """Requests of a test, and when they were let go."""

    def __init__(self, paced: RequestScheduler) -> None:
        self.paced = paced
        self.times: list[tuple[float, Priority]] = []

    async def one(self, on: Priority, *, seconds: float = 0.0, kind: str = "search") -> None:
        with with_priority(on):
            async with self.paced.turn(kind):
                self.times.append((trio.current_time(), on))
                await trio.sleep(seconds)

    async def many(self, count: int, on: Priority, *, seconds: float = 0.0) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(lambda: self.one(on, seconds=seconds))

    def of(self, on: Priority) -> list[float]:
        return [at for at, one in self.times if one is on]


def most_in_a_minute(times: list[float]) -> int:
    return max(sum(1 for other in times if at <= other < at + 60) for at in times)


async def test_no_minute_sees_more_than_is_allowed(autojump_clock: trio.testing.MockClock) -> None:
    requests = Requests(RequestScheduler(config.Limits(searches_per_minute=60)))
    await requests.many(200, Priority.INTERACTIVE)
    assert most_in_a_minute(requests.of(Priority.INTERACTIVE)) <= 60
    # And nearly all of it is used.
    assert requests.times[-1][0] - requests.times[0][0] < 200 / 60 * 60 * 1.4


async def test_without_limits_nothing_waits(autojump_clock: trio.testing.MockClock) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    await requests.many(500, Priority.INTERACTIVE)
    assert {at for at, _ in requests.times} == {trio.current_time()}


async def test_the_background_leaves_enough_for_who_waits(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits(searches_per_minute=60)))
    nursery.start_soon(requests.many, 120, Priority.LISTING)
    await trio.sleep(100)
    came = trio.current_time()
    await requests.many(5, Priority.INTERACTIVE)
    assert trio.current_time() == came
    assert most_in_a_minute([at for at, _ in requests.times]) <= 60
    nursery.cancel_scope.cancel()


async def test_the_more_urgent_overtakes(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits(requests_per_minute=60)))
    await requests.many(15, Priority.INTERACTIVE)
    for on in (Priority.PIN, Priority.LISTING, Priority.UPLOAD, Priority.INTERACTIVE):
        nursery.start_soon(requests.one, on)
        await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(60)
    order = [on for _, on in requests.times[15:]]
    assert order == [Priority.INTERACTIVE, Priority.UPLOAD, Priority.LISTING, Priority.PIN]


async def test_background_is_one_request_while_somebody_waits(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    nursery.start_soon(lambda: requests.one(Priority.INTERACTIVE, seconds=10))
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(lambda: requests.many(8, Priority.LISTING, seconds=1))
    await trio.sleep(9.5)
    # It gets on, one at a time.
    assert len(requests.of(Priority.LISTING)) in (8, 9)
    starts = requests.of(Priority.LISTING)
    assert all(later - earlier >= 1 for earlier, later in itertools.pairwise(starts))


async def test_the_background_alone_is_a_few_at_once(autojump_clock: trio.testing.MockClock) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    began = trio.current_time()
    await requests.many(2 * request_scheduler.BACKGROUND_AT_ONCE, Priority.LISTING, seconds=1)
    assert trio.current_time() - began == 2


async def test_read_ahead_leaves_budget_for_waiting_readers(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits(requests_per_minute=60)))
    nursery.start_soon(requests.many, 100, Priority.AHEAD)
    await trio.testing.wait_all_tasks_blocked()
    began = trio.current_time()
    await requests.many(3, Priority.INTERACTIVE)
    assert trio.current_time() == began
    nursery.cancel_scope.cancel()


async def test_background_is_limited_beside_readers(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    nursery.start_soon(lambda: requests.one(Priority.AHEAD, seconds=10))
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(lambda: requests.many(8, Priority.LISTING, seconds=1))
    await trio.sleep(9.5)
    assert len(requests.of(Priority.LISTING)) in (8, 9)


async def test_awaited_request_jumps_the_queue(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    paced = RequestScheduler(config.Limits())
    paced.hold(True)
    errand = RequestContext(Priority.PIN)
    went = trio.Event()

    async def run() -> None:
        with with_priority(errand):
            async with paced.turn("download"):
                went.set()

    nursery.start_soon(run)
    await trio.testing.wait_all_tasks_blocked()
    assert paced.queues == {"pin": (1, 0)}
    errand.hurry(Priority.PIN)
    await trio.testing.wait_all_tasks_blocked()
    assert not went.is_set()
    errand.hurry(Priority.INTERACTIVE)
    await trio.testing.wait_all_tasks_blocked()
    assert went.is_set()
    assert paced.queues == {}


async def test_one_refusal_holds_everybody_up(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    paced = RequestScheduler(config.Limits())
    requests = Requests(paced)
    paced.refused("search", 7.0)
    paced.refused("search", 3.0)
    began = trio.current_time()
    assert paced.held_up == 7.0
    nursery.start_soon(requests.one, Priority.INTERACTIVE)
    nursery.start_soon(requests.one, Priority.LISTING)
    await trio.testing.wait_all_tasks_blocked()
    assert paced.waiting == 2
    await trio.sleep(8)
    assert [at - began for at, _ in requests.times] == [7.0, 7.0]
    assert paced.waiting == 0


async def test_a_token_never_waits(autojump_clock: trio.testing.MockClock) -> None:
    paced = RequestScheduler(config.Limits(requests_per_minute=1))
    paced.refused("other", 60.0)
    began = trio.current_time()
    await Requests(paced).one(Priority.PIN, kind="token")
    assert trio.current_time() == began


async def test_whoever_gives_up_spends_nothing(autojump_clock: trio.testing.MockClock) -> None:
    paced = RequestScheduler(config.Limits(searches_per_minute=4))
    requests = Requests(paced)
    await requests.one(Priority.INTERACTIVE)
    with trio.move_on_after(1):
        await requests.one(Priority.INTERACTIVE)
    began = trio.current_time()
    await requests.one(Priority.INTERACTIVE)
    assert trio.current_time() - began <= 20
    assert paced.waiting == 0


async def test_tasks_inherit_whom_they_work_for(nursery: trio.Nursery) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    seen: list[Priority] = []

    async def note() -> None:
        async with requests.paced.turn("search"):
            seen.append(Priority(next(one for one, count in requests.paced._running.items() if count)))

    async def parent() -> None:
        async with trio.open_nursery() as own:
            own.start_soon(note)

    await request_scheduler.run_with_priority(Priority.UPLOAD, parent)
    await note()
    assert seen == [Priority.UPLOAD, Priority.INTERACTIVE]


async def test_uploads_are_few_beside_readers(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    requests = Requests(RequestScheduler(config.Limits()))
    nursery.start_soon(lambda: requests.one(Priority.AHEAD, seconds=10))
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(lambda: requests.many(100, Priority.UPLOAD, seconds=1))
    await trio.sleep(9.5)
    assert len(requests.of(Priority.UPLOAD)) == 10 * request_scheduler.UPLOADS_BESIDE
    # Nobody reads any more: all that is left goes at once.
    await trio.sleep(1.5)
    assert len(requests.of(Priority.UPLOAD)) == 100
