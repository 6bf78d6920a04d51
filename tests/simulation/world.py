"""The time, randomness and threads of a story, all determined by its seed.

Time is virtual: when all tasks wait, it jumps to the next deadline.  The order of tasks comes from trio's own
generator, seeded.  Work for worker threads runs on the event loop after a random virtual delay, so that other
tasks can run in between.

What would differ from process to process (the order of sets of strings) is fixed by `PYTHONHASHSEED`, which
`tests/simulation/run` sets.
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

# Start time of stories.  It is before the real mtime of any file, so that no file ever looks stale.
EPOCH = 1_767_225_600.0

# The actor of the current task: named in the trace, and the owner of its clock.
current_actor: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="story")


class Clock(trio.abc.Clock):
    """Virtual time: stands still while any task can run, and otherwise jumps to the next deadline.

    (`trio.testing.MockClock` takes three passes of the loop for a jump, which is a fifth of a story's time;
    and trio's own sleep enters, cancels and leaves a cancel scope, which is another fifth.)
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
        """Jump to the next deadline: the loop calls this when no task can run."""
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
        """Sleep as `trio.sleep` does."""
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


@contextlib.contextmanager
def acting(name: str) -> Iterator[None]:
    """Act as this one, by its clock."""
    token = current_actor.set(name)
    try:
        yield
    finally:
        current_actor.reset(token)


class World:
    """Everything that a story would take from the environment: time, randomness, threads; and its trace."""

    def __init__(self, seed: object, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.clock = Clock()
        self.threads = random.Random(f"{seed} threads")
        self._entropy = random.Random(f"{seed} entropy")
        self.chance = random.Random(f"{seed} module")
        self._ticks = 0
        self.skew: dict[str, float] = {}  # by actor: error of its clock in seconds
        self.skipped_seconds = 0.0  # seconds that were skipped for everybody
        self.restored_folders = 0  # folders that persons restored from the trash
        self._hash = hashlib.sha256()
        self._echo = echo
        self.lines = 0
        # Called wherever a process may be killed: before and after each work item of a thread.
        self.step: Callable[[], object] = lambda: None

    # ---- time and chance ----

    def now_ns(self) -> int:
        """Return the wall-clock time; it advances with each call, so that no two results are equal."""
        self._ticks += 1
        skew = self.skew.get(current_actor.get().removesuffix("'s programs"), 0.0) if self.skew else 0.0
        seconds = EPOCH + skew + self.skipped_seconds + self.clock.current_time()
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
        """Run the work as `trio.to_thread.run_sync` does, with random delays before and after it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        token = object()
        if limiter is not None:
            try:
                limiter.acquire_on_behalf_of_nowait(token)
            except trio.WouldBlock:
                await limiter.acquire_on_behalf_of(token)
        try:
            await self._random_delay()
            self.step()
            result = work(*args)
            self.step()
            await self._random_delay()
            return result
        finally:
            if limiter is not None:
                limiter.release_on_behalf_of(token)

    async def _random_delay(self) -> None:
        """Sleep for a random moment, shielded from cancellation."""
        chance = self.threads.random()
        if chance < 0.7:
            await loop.checkpoint()
        elif chance < 0.99:
            await self.clock.sleep(self.threads.expovariate(500), is_shielded=True)
        else:
            await self.clock.sleep(self.threads.uniform(0.05, 0.5), is_shielded=True)

    # ---- the trace ----

    def note(self, what: str) -> None:
        """Add a line to the trace, and to its hash."""
        line = f"{self.clock.current_time():12.6f} {current_actor.get()}: {what}"
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
        """Run work that does not belong to a story, from inside one."""
        return _run_in_new_thread(lambda: self.run(work))


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
        put(threads, "run_brief", world.in_thread)
        put(threads, "check_cancelled", lambda: None)
        put(trio, "sleep", world.clock.sleep)
        for replacement in loop.REPLACEMENTS:
            put(*replacement)
        put(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        put(trio._core._run, "_r", random.Random(f"{world.seed} scheduler"))
        yield


def _run_in_new_thread(work: Callable[[], Any]) -> Any:
    """Run this in a new thread: trio cannot run inside another run."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
