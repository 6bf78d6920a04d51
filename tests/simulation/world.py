"""The world of a story: its time, its chance and its threads are made here: a seed is the whole story.

Time is virtual: it jumps to the next moment at which somebody wants to go on.  The
order of tasks comes from trio's own generator, seeded.  What the product does in worker threads is done in
place, some virtual moments later, so that the others come between as they would.

What would differ from process to process (the order of sets of strings) is fixed by `PYTHONHASHSEED`: the
program `tests/simulation/run` sees to it.
"""

import contextlib
import contextvars
import hashlib
import heapq
import itertools
import math
import random
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, tzinfo
from typing import Any

import trio
import trio._core._run

from cmsfs.runtime import chance, clock, threads
from tests.simulation import loop

# When stories begin.  Files are younger than that by the machine's clock, and nothing of them is ever stale.
EPOCH = 1_767_225_600.0

# What happens to whom: said by `who` in the trace.
who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="story")


class Clock(trio.abc.Clock):
    """Time that stands still while anybody has something to do, and jumps to the next moment at which
    somebody wants to go on: nothing that a story waits for comes from outside.

    (`trio.testing.MockClock` takes three turns of the loop for a jump, which is a fifth of a story; and
    trio's own sleep is a scope that is entered, cancelled and left, which is another one.)
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, int, list[trio.lowlevel.Task]]] = []
        self._slept = itertools.count()

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds
        self._wake()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Asked by the loop when nobody has anything to do."""
        while self._sleepers and not self._sleepers[0][2]:
            heapq.heappop(self._sleepers)
        if self._sleepers:
            deadline = min(deadline, self._sleepers[0][0])
        if deadline == math.inf:
            return math.inf  # the loop itself, at its beginning and end
        self._now = max(self._now, deadline)
        self._wake()
        return 0

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._now:
            for task in heapq.heappop(self._sleepers)[2]:
                trio.lowlevel.reschedule(task)

    async def sleep(self, seconds: float, *, is_shielded: bool = False) -> None:
        """As `trio.sleep`."""
        if seconds < 0:
            raise ValueError("`seconds` must be non-negative")
        if seconds == 0:
            await trio.lowlevel.checkpoint()
            return
        waiting = [trio.lowlevel.current_task()]
        if seconds < math.inf:
            heapq.heappush(self._sleepers, (self._now + seconds, next(self._slept), waiting))

        def abort(_: object) -> trio.lowlevel.Abort:
            if is_shielded:
                return trio.lowlevel.Abort.FAILED
            waiting.clear()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)


class World:
    """Everything that a story takes from outside."""

    def __init__(self, seed: object, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.clock = Clock()
        self.threads = random.Random(f"{seed} threads")
        self._entropy = random.Random(f"{seed} entropy")
        self.chance = random.Random(f"{seed} module")
        self._ticks = 0
        self.skew: dict[str, float] = {}  # whose clock is wrong, by how much
        self.slept = 0.0  # for so long everybody did nothing at all
        self._hash = hashlib.sha256()
        self._echo = echo
        self.lines = 0
        # Called wherever a process could end: before and after each piece of work of a thread.
        self.step: Callable[[], object] = lambda: None

    # ---- time and chance ----

    def now_ns(self) -> int:
        """The wall clock, later with each look at it: two moments are never the same one."""
        self._ticks += 1
        skew = self.skew.get(who.get().removesuffix("'s programs"), 0.0) if self.skew else 0.0
        seconds = EPOCH + skew + self.slept + self.clock.current_time()
        return int(seconds * 1_000_000) * 1000 + self._ticks * 1000

    def now(self) -> float:
        return self.now_ns() / 1e9

    def datetime_now(self, tz: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(self.now(), tz)

    def entropy(self, count: int) -> bytes:
        return self._entropy.randbytes(count)

    async def in_thread(
        self,
        work: Callable[..., Any],
        *args: Any,
        thread_name: str | None = None,
        abandon_on_cancel: bool = False,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Any:
        """As `trio.to_thread.run_sync`: the work begins a moment later, and its end is heard of a moment
        after that."""
        await trio.lowlevel.checkpoint_if_cancelled()
        token = object()
        if limiter is not None:
            try:
                limiter.acquire_on_behalf_of_nowait(token)
            except trio.WouldBlock:
                await limiter.acquire_on_behalf_of(token)
        try:
            await self._moment()
            self.step()
            result = work(*args)
            self.step()
            await self._moment()
            return result
        finally:
            if limiter is not None:
                limiter.release_on_behalf_of(token)

    async def _moment(self) -> None:
        """Nobody who is cancelled goes on earlier."""
        chance = self.threads.random()
        if chance < 0.7:
            await trio.lowlevel.cancel_shielded_checkpoint()
        elif chance < 0.99:
            await self.clock.sleep(self.threads.expovariate(500), is_shielded=True)
        else:
            await self.clock.sleep(self.threads.uniform(0.05, 0.5), is_shielded=True)

    # ---- the trace ----

    def note(self, what: str) -> None:
        """A line of the trace; its hash is the story's."""
        line = f"{self.clock.current_time():12.6f} {who.get()}: {what}"
        self._hash.update(line.encode("utf-8", "replace"))
        self.lines += 1
        if self._echo is not None:
            self._echo(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    # ---- the run ----

    def run(self, story: Callable[[], Awaitable[Any]]) -> Any:
        """Run the story in this world."""
        with _patched(self):
            return loop.run(self.clock, story)

    def run_inside(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run something that belongs to no story, from inside of one."""
        return _apart(lambda: self.run(work))


@contextlib.contextmanager
def _patched(world: World) -> Iterator[None]:
    with contextlib.ExitStack() as stack:

        def put(holder: Any, name: str, value: Any) -> None:
            stack.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)

        moment = world.clock.current_time
        put(clock, "time", world.now)
        put(clock, "time_ns", world.now_ns)
        put(clock, "monotonic", moment)
        put(clock, "clock_gettime", lambda which: moment())
        put(clock, "datetime_now", world.datetime_now)
        put(clock, "date_today", lambda: world.datetime_now().date())
        put(clock, "sleep", world.clock.jump)
        put(chance, "token_bytes", world.entropy)
        put(chance, "token_hex", lambda count=32: world.entropy(count).hex())
        put(
            chance,
            "token_urlsafe",
            lambda count=32: urlsafe_b64encode(world.entropy(count)).decode().rstrip("="),
        )
        put(chance, "randbelow", world.chance.randrange)
        put(chance, "uniform", world.chance.uniform)
        put(chance, "uuid4", lambda: uuid.UUID(bytes=world.entropy(16), version=4))
        put(threads, "run_sync", world.in_thread)
        put(trio, "sleep", world.clock.sleep)
        put(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        put(trio._core._run, "_r", random.Random(f"{world.seed} scheduler"))
        yield


def _apart(work: Callable[[], Any]) -> Any:
    """Carry this out in a thread of its own: a run of trio cannot be inside another one."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
