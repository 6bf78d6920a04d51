"""The request scheduler: the account's rate budget, and which request goes first.

Every attempt of every request passes `RequestScheduler.turn` (it is the client's `RateGate`).  Who it is for
is said by whoever starts the work: `with with_priority(Priority.LISTING): ...` holds for everything awaited
inside and for tasks started there.  What nobody has said anything about is interactive: somebody waits for
it.  Work for which somebody may come to wait is a `RequestContext`, whose class can be raised while its
request waits for a turn.

Three things are shared out: the requests a minute that the profile allows (a bucket each for all, for
searches and for uploads), the wait that a 429 asks for, and the attention of the service, of which work in
the background takes little while somebody waits.

Rule: a class never waits for a later one; work in the background always gets on.
"""

import contextvars
import enum
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import trio

from cmsfs import config
from cmsfs.wakeup import Signal


class Priority(enum.IntEnum):
    """Whom a request is for, the most urgent first."""

    INTERACTIVE = 0  # a program waits in a system call
    UPLOAD = 1  # what was written here and is nowhere else yet
    AHEAD = 2  # what a program will read next, by all appearance
    OPENED = 3  # the tree below a folder that was opened just now
    CHANGES = 4  # what others did
    LISTING = 5  # the tree, before anybody asks
    PIN = 6  # what is to be kept here


# Programs that read: a pause does not hold them up.
_READING = (Priority.INTERACTIVE, Priority.AHEAD)

# Beside these the background takes little.
_BEFORE_BACKGROUND = (*_READING, Priority.OPENED)

# From here on it is background: nobody notices if it takes longer.
_BACKGROUND = Priority.LISTING

# Requests of the background under way: as many as keep a distant service busy; and one while somebody waits.
BACKGROUND_AT_ONCE = 4
BACKGROUND_BESIDE = 1
# Uploads beside who reads: a hundred small files would else be in line before each read.
UPLOADS_BESIDE = 4
# Whoever waited a moment ago goes on in a moment: a walk is one request after the other.
CALM_SECONDS = 0.5

# Of what a minute allows this part may be spent at once, when nothing was spent for a while; the rest comes
# evenly, so that no minute, wherever it begins, sees more than is allowed.
BURST = 0.25
# Of that, this part is for those who wait, and for uploads.
RESERVE = 0.5

# A 429 that does not say when to come back.
UNTOLD_SECONDS = 2.0


@dataclass(eq=False)
class RequestContext:
    """What requests are made for, with the class that it has by now."""

    on: Priority
    waiting: Callable[[], None] | None = field(default=None, init=False)  # called when it is more urgent

    def hurry(self, on: Priority) -> None:
        """It is as urgent as this, from now on; what waits for its turn already, too."""
        if on < self.on:
            self.on = on
            if self.waiting is not None:
                self.waiting()


_errand: contextvars.ContextVar[RequestContext | None] = contextvars.ContextVar("errand", default=None)


def current() -> Priority:
    """The class of requests that are made here."""
    errand = _errand.get()
    return Priority.INTERACTIVE if errand is None else errand.on


@contextmanager
def with_priority(on: Priority | RequestContext) -> Iterator[None]:
    """Requests made inside, and by tasks started inside, are of this class, or for this errand."""
    token = _errand.set(on if isinstance(on, RequestContext) else RequestContext(on))
    try:
        yield
    finally:
        _errand.reset(token)


async def run_with_priority(on: Priority, do: Callable[[], Awaitable[None]]) -> None:
    """Await `do` with its requests in this class; for tasks."""
    with with_priority(on):
        await do()


class Bucket:
    """A token bucket over a minute."""

    def __init__(self, a_minute: int) -> None:
        self.capacity = max(a_minute * BURST, 1.0)
        self._rate = max(a_minute - self.capacity, 1.0) / 60
        self._tokens = self.capacity
        self._at = trio.current_time()

    def wait(self, *, reserve: float) -> float:
        """Seconds until one may be taken with so much left behind."""
        now = trio.current_time()
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self.capacity)
        self._at = now
        # The arithmetic of a wait that is just over may leave a crumb.
        missing = 1 + min(reserve, self.capacity - 1) - self._tokens
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self) -> None:
        self._tokens -= 1

    def empty(self) -> None:
        """The service counts otherwise than we do."""
        self._tokens = 0.0


class RequestScheduler:
    """Schedules every request; construct inside the event loop."""

    def __init__(self, limits: config.Limits) -> None:
        self._for_all = [Bucket(limits.requests_per_minute)] if limits.requests_per_minute else []
        own = {"search": limits.searches_per_minute, "upload": limits.uploads_per_minute}
        # What a request of a kind is taken from, where that is not the same as for all others.
        self._buckets = {kind: [*self._for_all, Bucket(most)] for kind, most in own.items() if most}
        self._not_before = -math.inf
        self._last_waited = -math.inf
        self._waiting: Counter[Priority] = Counter()
        self._running: Counter[Priority] = Counter()
        self._moved = Signal()
        self._held = False

    def hold(self, held: bool) -> None:
        """Let nothing go but what programs read, or let it go again."""
        self._held = held
        self._moved.pulse()

    @property
    def queues(self) -> dict[str, tuple[int, int]]:
        """By class that has any: requests that wait, and that are under way."""
        found = {one.name.lower(): (self._waiting[one], self._running[one]) for one in Priority}
        return {name: counts for name, counts in found.items() if any(counts)}

    @property
    def held_up(self) -> float:
        """Seconds until the service wants to be asked again; 0: it is content."""
        return max(self._not_before - trio.current_time(), 0.0)

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return self._waiting.total()

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        """One attempt.  Cancelled while waiting: nothing was spent."""
        # Tokens are no part of the allowance; whoever needs one holds a turn already.
        if kind == "token":
            yield
            return
        errand = _errand.get() or RequestContext(Priority.INTERACTIVE)
        buckets = self._buckets.get(kind, self._for_all)
        # atomic: no await between the last look and the taking
        if self._wait(errand.on, buckets) > 0:
            await self._queue(errand, buckets)
        mine = errand.on
        for bucket in buckets:
            bucket.take()
        self._running[mine] += 1
        try:
            yield
        finally:
            self._running[mine] -= 1
            if mine in _READING:
                self._last_waited = trio.current_time()
            # Only when somebody listens: this runs at every request.
            if self._waiting.total():
                self._moved.pulse()

    def refused(self, kind: str, retry_after: float | None) -> None:
        """Nobody asks again before the service wants it; then slowly."""
        wait = UNTOLD_SECONDS if retry_after is None else retry_after
        self._not_before = max(self._not_before, trio.current_time() + wait)
        for bucket in self._buckets.get(kind, self._for_all):
            bucket.empty()

    async def _queue(self, errand: RequestContext, buckets: list[Bucket]) -> None:
        """Return when it is this one's turn, of the class that it has then."""
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
            # Whom this one stood before may go.
            self._moved.pulse()

    def _wait(self, mine: Priority, buckets: list[Bucket]) -> float:
        """Seconds until it may be this one's turn; infinite: until something moves."""
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
