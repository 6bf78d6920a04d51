"""Runs blocking work in threads, so that it does not block the event loop."""

import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import trio

P = ParamSpec("P")
R = TypeVar("R")

run_sync = trio.to_thread.run_sync

# For so long the event loop itself waits for brief work.
BRIEF_SECONDS = 0.0003

# Where it took longer, the loop does not wait for a while, twice as long each time: at most so many times.
MOST_SKIPPED = 63

# Call in such a thread: raises `trio.Cancelled` if the task that waits for it has been cancelled.
check_cancelled = trio.from_thread.check_cancelled


class BriefWork:
    """How many times in a row the loop does not wait for brief work, and how many of them are left."""

    skipped = skips = 0


async def run_brief(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Like `run_sync`, for work that takes some 0.1 ms, such as an fsync of a few pages.

    The event loop waits for it, up to `BRIEF_SECONDS`: to go to sleep, be woken by the thread and resume the
    task takes as long as the work.  Cancelled: before the start nothing happens; once running, it is
    finished first.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    if BriefWork.skips:
        BriefWork.skips -= 1
        patience = 0.0
    else:
        patience = BRIEF_SECONDS
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
    results: list[Any] = []
    lock, done = threading.Lock(), threading.Lock()
    is_asleep = False
    done.acquire()

    def deliver(result: Any) -> None:
        with lock:
            results.append(result)
        if is_asleep:
            token.run_sync_soon(trio.lowlevel.reschedule, task)
        else:
            done.release()

    trio.lowlevel.start_thread_soon(lambda: work(*args, **kwargs), deliver)
    is_done = done.acquire(timeout=patience)
    if patience:
        BriefWork.skips = BriefWork.skipped = 0 if is_done else min(2 * BriefWork.skipped + 1, MOST_SKIPPED)
    with lock:
        is_asleep = not results
    if is_asleep:
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    return cast(R, results[0].unwrap())
