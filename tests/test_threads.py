"""Work in threads: what is brief is done before another task has run, and what is not stops nobody."""

import threading
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from cmsfs.runtime import threads


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However busy the machine is, brief work ends while the loop waits for it."""
    monkeypatch.setattr(threads, "BRIEF_SECONDS", 10.0)
    monkeypatch.setattr(threads.BriefWork, "skips", 0)
    monkeypatch.setattr(threads.BriefWork, "skipped", 0)
    yield


async def test_brief_work_is_done_in_a_thread_before_other_tasks_run() -> None:
    order: list[str] = []

    async def other() -> None:
        order.append("other task")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await threads.run_brief(threading.current_thread) is not threading.current_thread()
        order.append("brief work")
    assert order == ["brief work", "other task"]


async def test_an_error_of_brief_work_is_raised() -> None:
    def fail() -> None:
        raise OSError(5, "the disk")

    with pytest.raises(OSError, match="the disk"):
        await threads.run_brief(fail)


async def test_other_tasks_run_while_work_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "BRIEF_SECONDS", 0.0001)
    may_end = threading.Event()

    async def other() -> None:
        may_end.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await threads.run_brief(may_end.wait, 60)


async def test_the_loop_waits_less_often_for_work_that_took_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "BRIEF_SECONDS", 0.0001)
    for skipped in (1, 3):
        may_end = threading.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, may_end.set)
            await threads.run_brief(may_end.wait, 60)
        assert threads.BriefWork.skips == skipped
        for _ in range(skipped):
            await threads.run_brief(int)
        assert threads.BriefWork.skips == 0
    monkeypatch.setattr(threads, "BRIEF_SECONDS", 10.0)
    await threads.run_brief(int)
    assert threads.BriefWork.skipped == 0


async def test_brief_work_that_was_begun_is_finished_though_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "BRIEF_SECONDS", 0.0001)
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_end.wait(60)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(threads.run_brief, work)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        may_end.set()
    assert ended.is_set()
    with trio.CancelScope() as scope:
        scope.cancel()
        ended.clear()
        await threads.run_brief(work)
    assert not ended.is_set()
