import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cmsfs.wakeup import LockGuard, Signal


@pytest.fixture
def woken() -> list[str]:
    return []


async def _wait(signal: Signal, woken: list[str], name: str) -> None:
    await signal.wait()
    woken.append(name)


async def test_set_lets_those_who_come_later_through(woken, nursery):
    signal = Signal()
    nursery.start_soon(_wait, signal, woken, "before")
    await wait_all_tasks_blocked()
    assert (woken, signal.is_set) == ([], False)
    signal.set()
    await wait_all_tasks_blocked()
    await _wait(signal, woken, "after")
    assert (woken, signal.is_set) == (["before", "after"], True)


async def test_begins_set_if_asked(woken):
    await _wait(Signal(is_set=True), woken, "through")
    assert woken == ["through"]


async def test_clear_makes_those_who_come_later_wait(woken, nursery):
    signal = Signal(is_set=True)
    signal.clear()
    nursery.start_soon(_wait, signal, woken, "late")
    await wait_all_tasks_blocked()
    assert woken == []
    signal.set()
    await wait_all_tasks_blocked()
    assert woken == ["late"]


async def test_cleared_signal_still_wakes_waiter(woken, nursery):
    signal = Signal()
    nursery.start_soon(_wait, signal, woken, "waiter")
    await wait_all_tasks_blocked()
    signal.set()
    signal.clear()
    await wait_all_tasks_blocked()
    assert (woken, signal.is_set) == (["waiter"], False)


async def test_clearing_what_is_not_set_forgets_no_waiter(woken, nursery):
    signal = Signal()
    nursery.start_soon(_wait, signal, woken, "waiter")
    await wait_all_tasks_blocked()
    signal.clear()
    signal.set()
    await wait_all_tasks_blocked()
    assert woken == ["waiter"]


async def test_pulse_wakes_current_waiters_only(woken, nursery):
    signal = Signal()
    for name in ("one", "two"):
        nursery.start_soon(_wait, signal, woken, name)
    await wait_all_tasks_blocked()
    signal.pulse()
    nursery.start_soon(_wait, signal, woken, "late")
    await wait_all_tasks_blocked()
    assert (sorted(woken), signal.is_set) == (["one", "two"], False)
    signal.pulse()
    await wait_all_tasks_blocked()
    assert woken[2:] == ["late"]


async def test_pulse_leaves_a_set_signal_set(woken):
    signal = Signal(is_set=True)
    signal.pulse()
    assert signal.is_set
    await _wait(signal, woken, "through")
    assert woken == ["through"]


async def test_work_noted_meanwhile_gets_another_round(nursery):
    """The loop that agents run: clear, look, work, wait."""
    signal, ready, work, done = Signal(), Signal(), ["first"], []

    async def worker() -> None:
        while True:
            signal.clear()
            batch, work[:] = list(work), []
            await ready.wait()
            done.append(batch)
            await signal.wait()

    nursery.start_soon(worker)
    await wait_all_tasks_blocked()
    work.append("while busy")
    signal.set()
    ready.set()
    await wait_all_tasks_blocked()
    work.append("while idle")
    signal.set()
    await wait_all_tasks_blocked()
    assert done == [["first"], ["while busy"], ["while idle"]]


async def test_a_cancelled_waiter_takes_nothing_from_the_others(woken, nursery):
    signal = Signal()
    nursery.start_soon(_wait, signal, woken, "stays")
    await wait_all_tasks_blocked()
    with trio.move_on_after(0):
        await signal.wait()
    signal.set()
    await wait_all_tasks_blocked()
    assert (woken, signal.is_set) == (["stays"], True)


async def test_taken_lock_is_waited_for_and_given_back(woken, nursery):
    lock = trio.Lock()

    async def take(name):
        async with LockGuard(lock):
            woken.append(name)

    async with LockGuard(lock):
        nursery.start_soon(take, "second")
        await wait_all_tasks_blocked()
        assert woken == []
    await wait_all_tasks_blocked()
    assert (woken, lock.locked()) == (["second"], False)
    with pytest.raises(KeyError):
        async with LockGuard(lock):
            raise KeyError
    assert not lock.locked()


async def test_pulse_wakes_those_who_wait_and_no_others(woken, nursery):
    signal = Signal()
    signal.pulse()
    nursery.start_soon(_wait, signal, woken, "one")
    await wait_all_tasks_blocked()
    assert woken == []
    with trio.move_on_after(0):
        await signal.wait()
    signal.pulse()
    await wait_all_tasks_blocked()
    assert woken == ["one"]
