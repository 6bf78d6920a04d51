"""Decides which task reads the next request from the kernel: a cheaper stand-in for trio in pyfuse3's loop.

pyfuse3 runs many tasks that read a request and handle it, with a lock around the reading.  A `trio.Lock`
passes to another task with every request, which takes another iteration of trio's loop and costs about as
much as a lookup.  Here a task that has read a request keeps its turn until its handler has to wait
(`hand_over`, called by `run_handler`), which most never do; then it reads the next one.

A program makes its next call some microseconds after the answer to the last one, and another iteration of
trio's loop, in which this process goes to sleep and is woken, takes longer than that.  So after each answer
the next request is looked for a few times before trio is asked for it: copying small files takes a fifth less
time.  After a request that has to wait it is not: its program waits, too.

`install` replaces trio in pyfuse3's module by this, as `pyfuse3.asyncio` does with its own substitute.

Rule: the turn is free only while the task that had it last runs on without waiting; when it waits or ends,
it passes the turn to a task that waits for one.
"""

import select
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import SimpleNamespace, TracebackType, coroutine
from typing import Any, ClassVar, TypeVar

import pyfuse3
import trio

from cmsfs.runtime import clock

R = TypeVar("R")

# Other tasks run after this many requests in a row, and after this time.
IN_A_ROW = 16
IN_A_ROW_SECONDS = 0.001

# How many times the next request is looked for, for some 80 µs in all; after a request that had to wait, for
# 150 µs, since its program has slept as long, and so has its processor.
LOOKS, LOOKS_AFTER_WAIT = 200, 400

# Where that is in vain, it is not done for a while, twice as long after each time: at most so many requests.
MOST_SKIPPED = 63


class Turn:
    """The part of `trio.Lock` that pyfuse3 uses."""

    current: ClassVar["Turn | None"] = None
    # Requests that have to wait and are not answered yet.
    waiting_requests: ClassVar[int] = 0

    def __init__(self) -> None:
        Turn.current = self
        self._is_taken = False
        self._has_request = False
        # Whether a request that waits has handed over the turn; whether who has it waits in trio's loop.
        self._is_passed_on = self._is_asleep = False
        self._waiting = trio.lowlevel.ParkingLot()
        self._poll: tuple[int, select.poll] | None = None
        self._in_a_row, self._until = 0, 0.0
        # How many requests are not looked for, from the last time in vain, and of those how many are left.
        self._skipped = self._skips = 0

    async def __aenter__(self) -> None:
        if self._is_taken:
            if self._is_asleep and self._poll is not None and not self.waiting_requests:
                # After the answer to a request that had to wait, if none else does: with several programs
                # there is other work.  Whoever sleeps then wakes up at once.
                self.comes_soon(self._poll[1].poll, LOOKS_AFTER_WAIT)
            await self._waiting.park()  # `hand_over` takes the turn for the task that it wakes
        self._is_taken, self._has_request = True, False

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_taken = False
        if not self._has_request:
            self.hand_over()

    def hand_over(self) -> None:
        """Let the next waiting task read requests, unless a task has the turn."""
        if not self._is_taken and self._waiting:
            self._is_taken = self._is_passed_on = True
            self._waiting.unpark()

    async def wait_readable(self, descriptor: int) -> None:
        """Wait until there is a request; usually a checkpoint."""
        if self._poll is None or self._poll[0] != descriptor:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            self._poll = descriptor, poll
        look = self._poll[1].poll
        is_passed_on, self._is_passed_on = self._is_passed_on, False
        if self._may_go_on() and (look(0) if is_passed_on else self.comes_soon(look)):
            self._in_a_row += 1
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            self._is_asleep = True
            try:
                await trio.lowlevel.wait_readable(descriptor)
            finally:
                self._is_asleep = False
            self._in_a_row, self._until = 0, clock.monotonic() + IN_A_ROW_SECONDS
        self._has_request = True

    def _may_go_on(self) -> bool:
        """Whether other tasks have run a short while ago."""
        return self._in_a_row < IN_A_ROW and clock.monotonic() < self._until

    def comes_soon(self, look: Callable[[float], list[tuple[int, int]]], looks: int = LOOKS) -> bool:
        """Whether there is a request, or comes one while it is worth looking; `look` looks for it once."""
        if look(0):
            return True
        if self._skips:
            self._skips -= 1
            return False
        for _ in range(looks):
            if look(0):
                self._skipped = 0
                return True
        # On a processor that the program shares with us it cannot come meanwhile.
        self._skips = self._skipped = min(2 * self._skipped + 1, MOST_SKIPPED)
        return False


class _Workers:
    """A nursery whose tasks hand over their turn when they end."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    def start_soon(self, work: Callable[..., Awaitable[None]], *args: Any, name: str | None = None) -> None:
        self._nursery.start_soon(_until_end, work, args, name=name)


async def _until_end(work: Callable[..., Awaitable[None]], args: tuple[Any, ...]) -> None:
    try:
        await work(*args)
    finally:
        hand_over()


class _OpenWorkers:
    """The stand-in for `trio.open_nursery` in pyfuse3's loop."""

    def __init__(self) -> None:
        self._nursery = trio.open_nursery()

    async def __aenter__(self) -> _Workers:
        return _Workers(await self._nursery.__aenter__())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._nursery.__aexit__(kind, error, traceback)


async def _wait_readable(descriptor: int) -> None:
    assert Turn.current is not None
    await Turn.current.wait_readable(descriptor)


def hand_over() -> None:
    """Let another task read the next request, because the current one waits or ends."""
    if (turn := Turn.current) is not None:
        turn.hand_over()


@coroutine
def run_handler(work: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    """Run a handler; when it first has to wait, hand over the turn."""
    try:
        asked = work.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    hand_over()
    Turn.waiting_requests += 1
    try:
        while True:
            try:
                told = yield asked
            except BaseException as error:
                asked = work.throw(error)
            else:
                asked = work.send(told)
    except StopIteration as done:
        result = done.value
        return result
    finally:
        Turn.waiting_requests -= 1


def install() -> None:
    """Make pyfuse3 use these turns in every session that starts from now on."""
    pyfuse3.trio = SimpleNamespace(  # type: ignore[attr-defined]
        Lock=Turn,
        ClosedResourceError=trio.ClosedResourceError,
        open_nursery=_OpenWorkers,
        lowlevel=SimpleNamespace(
            current_task=trio.lowlevel.current_task,
            current_trio_token=trio.lowlevel.current_trio_token,
            notify_closing=trio.lowlevel.notify_closing,
            wait_readable=_wait_readable,
        ),
    )
