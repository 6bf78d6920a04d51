"""The request scheduler: the account's rate budget, and the priority of requests.

Every attempt of every request passes `RequestScheduler.turn` (it is the client's `RateGate`).  The code that
starts the work sets the priority: `with with_priority(Priority.LISTING): ...` applies to everything awaited
inside and to tasks started there.  The default is interactive: a program waits.  Work for which a program may
come to wait is a `RequestContext`, whose priority can be raised while its request is queued.

Three resources are shared: the requests per minute that the profile allows (a bucket each for all, for
searches and for uploads), the delay that a 429 asks for, and the capacity of the service, of which background
work uses little while a program waits.

Rule: a request never waits for one of lower priority; background work always makes progress.
"""

import contextvars
import enum
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from cmsfs import config
from cmsfs.wakeup import Signal


class Priority(enum.IntEnum):
    """Purpose of a request, the most urgent first."""

    INTERACTIVE = 0  # a program waits in a system call
    UPLOAD = 1  # local changes that exist nowhere else yet
    AHEAD = 2  # what a program will probably read next
    OPENED = 3  # the tree below a recently opened folder
    CHANGES = 4  # remote changes
    LISTING = 5  # the tree, before a program needs it
    PIN = 6  # pinned contents


# Programs that read: a pause does not affect them.
_READING = (Priority.INTERACTIVE, Priority.AHEAD)

# While these are active, background work uses little.
_BEFORE_BACKGROUND = (*_READING, Priority.OPENED)

# Background priorities start here: delays go unnoticed.
_BACKGROUND = Priority.LISTING

# Background requests in flight: enough to keep a service busy that is 40 ms away and takes 10 ms for each
# request; one while a program waits.
BACKGROUND_AT_ONCE = 6
BACKGROUND_BESIDE = 1
# Uploads in flight while programs read: a hundred small files would otherwise queue before each read.
UPLOADS_BESIDE = 4
# A program that waited recently will soon wait again: a walk is one request after the other.
CALM_SECONDS = 0.5

# This part of a minute's budget may be spent at once after a pause; the rest is spread evenly, so that no
# minute, wherever it begins, exceeds the limit.
BURST = 0.25
# This part of the burst is reserved for programs that wait, and for uploads.
RESERVE = 0.5

# Delay after a 429 without Retry-After.
UNTOLD_SECONDS = 2.0


@dataclass(eq=False)
class RequestContext:
    """The purpose of requests, with its current priority."""

    on: Priority
    waiting: Callable[[], None] | None = field(default=None, init=False)  # called when the priority rises

    def hurry(self, on: Priority) -> None:
        """Raise the priority from now on, also for queued requests."""
        if on < self.on:
            self.on = on
            if self.waiting is not None:
                self.waiting()


_errand: contextvars.ContextVar[RequestContext | None] = contextvars.ContextVar("errand", default=None)


def current() -> Priority:
    """Return the priority of requests made here."""
    errand = _errand.get()
    return Priority.INTERACTIVE if errand is None else errand.on


@contextmanager
def with_priority(on: Priority | RequestContext) -> Iterator[None]:
    """Set the priority or context of requests made inside, also by tasks started inside."""
    token = _errand.set(on if isinstance(on, RequestContext) else RequestContext(on))
    try:
        yield
    finally:
        _errand.reset(token)


async def run_with_priority(on: Priority, do: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Await `do` with this priority; for tasks."""
    with with_priority(on):
        await do(*args)


class Bucket:
    """A token bucket over a minute."""

    def __init__(self, a_minute: int) -> None:
        self.capacity = max(a_minute * BURST, 1.0)
        self._rate = max(a_minute - self.capacity, 1.0) / 60
        self._tokens = self.capacity
        self._at = trio.current_time()

    def wait(self, *, reserve: float) -> float:
        """Return the seconds until a token can be taken with this reserve left."""
        now = trio.current_time()
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self.capacity)
        self._at = now
        # Rounding may leave a tiny remainder at the end of a wait.
        missing = 1 + min(reserve, self.capacity - 1) - self._tokens
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self) -> None:
        self._tokens -= 1

    def empty(self) -> None:
        """Empty the bucket: the service counts differently."""
        self._tokens = 0.0


class RequestTurn:
    """The turn of one attempt, as a context.  Not a generator: there is one for every request."""

    __slots__ = ("_kind", "_priority", "_scheduler")

    def __init__(self, scheduler: "RequestScheduler", kind: str) -> None:
        self._scheduler, self._kind = scheduler, kind
        self._priority: Priority | None = None

    async def __aenter__(self) -> None:
        # Token requests are not limited; the request that needs one holds a turn already.
        if self._kind != "token":
            self._priority = await self._scheduler.take_turn(self._kind)

    async def __aexit__(self, *raised: object) -> None:
        if self._priority is not None:
            self._scheduler.end_turn(self._priority)


class RequestScheduler:
    """Schedules every request; construct inside the event loop."""

    def __init__(self, limits: config.Limits) -> None:
        self._for_all = [Bucket(limits.requests_per_minute)] if limits.requests_per_minute else []
        own = {"search": limits.searches_per_minute, "upload": limits.uploads_per_minute}
        # The buckets for each kind of request that has a limit of its own.
        self._buckets = {kind: [*self._for_all, Bucket(most)] for kind, most in own.items() if most}
        self._not_before = -math.inf
        self._last_waited = -math.inf
        self._waiting: Counter[Priority] = Counter()
        self._running: Counter[Priority] = Counter()
        self._moved = Signal()
        self._held = False

    def hold(self, held: bool) -> None:
        """Hold all requests but those of programs that read, or release them."""
        self._held = held
        self._moved.pulse()

    @property
    def queues(self) -> dict[str, tuple[int, int]]:
        """Return the number of queued requests and of those in flight, by priority."""
        found = {one.name.lower(): (self._waiting[one], self._running[one]) for one in Priority}
        return {name: counts for name, counts in found.items() if any(counts)}

    @property
    def held_up(self) -> float:
        """Return the seconds until the service accepts requests again; 0: now."""
        return max(self._not_before - trio.current_time(), 0.0)

    @property
    def waiting(self) -> int:
        """Return the number of queued requests."""
        return self._waiting.total()

    def turn(self, kind: str) -> "RequestTurn":
        """Hold a turn for one attempt.  Cancelled while queued: nothing was spent."""
        return RequestTurn(self, kind)

    async def take_turn(self, kind: str) -> Priority:
        """Wait for a turn; return its priority, with which it ends."""
        errand = _errand.get() or RequestContext(Priority.INTERACTIVE)
        buckets = self._buckets.get(kind, self._for_all)
        # atomic: no await between the last check and taking the turn
        if self._wait(errand.on, buckets) > 0:
            await self._queue(errand, buckets)
        mine = errand.on
        for bucket in buckets:
            bucket.take()
        self._running[mine] += 1
        return mine

    def end_turn(self, mine: Priority) -> None:
        self._running[mine] -= 1
        if mine in _READING:
            self._last_waited = trio.current_time()
        # Only with waiters: this runs for every request.
        if self._waiting.total():
            self._moved.pulse()

    def refused(self, kind: str, retry_after: float | None) -> None:
        """Hold all requests for the requested delay; then continue slowly."""
        wait = UNTOLD_SECONDS if retry_after is None else retry_after
        self._not_before = max(self._not_before, trio.current_time() + wait)
        for bucket in self._buckets.get(kind, self._for_all):
            bucket.empty()

    async def _queue(self, errand: RequestContext, buckets: list[Bucket]) -> None:
        """Return when it is the request's turn, at its current priority."""
        errand.waiting = self._moved.pulse
        try:
            while (wait := self._wait(mine := errand.on, buckets)) > 0:
                self._waiting[mine] += 1
                try:
                    with trio.move_on_after(wait):
                        await self._moved.wait()
                finally:
                    self._waiting[mine] -= 1
        finally:
            # Requests queued behind this one may proceed.
            self._moved.pulse()

    def _wait(self, mine: Priority, buckets: list[Bucket]) -> float:
        """Return the seconds until it may be this request's turn; infinite: until something changes."""
        if self._held and mine not in _READING:
            return math.inf
        wait = self._not_before - trio.current_time()
        for bucket in buckets:
            reserve = bucket.capacity * RESERVE if mine >= Priority.AHEAD else 0.0
            wait = max(wait, bucket.wait(reserve=reserve))
        if any(count and one < mine for one, count in self._waiting.items()):
            return math.inf
        if mine >= _BACKGROUND:
            running = sum(count for one, count in self._running.items() if one >= _BACKGROUND)
            beside = running >= BACKGROUND_BESIDE
            wanted = any(self._running[one] for one in _BEFORE_BACKGROUND)
            if running >= BACKGROUND_AT_ONCE or (beside and wanted):
                return math.inf
            if beside:
                wait = max(wait, self._last_waited + CALM_SECONDS - trio.current_time())
        if mine is Priority.UPLOAD and self._running[mine] >= UPLOADS_BESIDE:
            if any(self._running[one] for one in _READING):
                return math.inf
            wait = max(wait, self._last_waited + CALM_SECONDS - trio.current_time())
        return wait
