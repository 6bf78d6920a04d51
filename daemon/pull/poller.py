"""The pull loop: applies remote changes within seconds.

How changes are found is the feed's: by search, every few seconds while the drive is in use and seldom
otherwise; or by the stream of events, as soon as the service says that there is one.

What comes while work of ours is in its way is settled later (`doubts`).

Rule: one look at a time, whoever asks for it; and none that takes the drive's whole time.
"""

import logging
import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

import trio

from cmsfs import errors
from cmsfs.replica.merge import local_work
from cmsfs.runtime import chance, clock
from cmsfs.sqlite import Database
from cmsfs.user_messages import explain
from cmsfs.wakeup import Signal
from daemon.core.health import Health
from daemon.core.stall_detector import StallDetector
from daemon.fetch.hydrate import Hydrator

log = logging.getLogger(__name__)

# So that a thousand drives that were started together do not ask together.
SPREAD = 0.2

# How long after its last use the drive counts as in use.
IN_USE_SECONDS = 60.0

ATTEMPTS = 3

# How long a listing takes the place of polls.
LISTING_SECONDS = 30.0

# While thousands of changes of our own come back with every poll, a poll takes seconds; the drive has other
# things to do in four fifths of its time.  A look that read less than this has waited rather than worked, for
# its turn or for a service that did not answer, and is no reason to look more rarely.
MOST_OF_THE_TIME = 4
MANY_READ = 500

# A connection that died in silence tells of nothing any more: whatever it says, there is a look this often.
SECOND_LOOK_SECONDS = 60.0

# Waiting that ends sooner than this, and for nothing, is no waiting.
STORM_SECONDS = 10.0

# Where the service tells of news, the first of a burst is fetched at once, and what follows together.
GATHER_SECONDS = 0.5


class Feed(Protocol):
    """A source of remote changes since the last poll."""

    can_wait: bool  # whether the service says when there is something new
    brought: int  # how often a look brought something
    read: int  # how many items the last look was told of

    async def begin(self) -> None:
        """Note where to begin, if that is not known.  Raises `RemoteError`."""

    async def once(self) -> bool:
        """Apply what is new; whether that was all.  Raises `RemoteError`.

        Cancelled, or failed: what came is applied, and the next look begins where this one got.
        """

    def left_out(self) -> list[str]:
        """What of the news cannot be held here, a line for each item."""

    async def news(self) -> bool:
        """Wait until there is something new; False: ask all the same.  Raises `RemoteError`."""


class Poller:
    """Polls for remote changes and lets the feed apply them."""

    def __init__(
        self,
        db: Database,
        feed: Feed,
        hydrator: Hydrator,
        health: Health,
        *,
        seconds: float,
        idle_seconds: float,
        is_used: Callable[[], bool],
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self._db = db
        self._feed = feed
        self._hydrator = hydrator
        self._health = health
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._is_used = is_used
        self._settle = settle
        self._used_at = trio.current_time()
        self._wanted = Signal()
        self._polling = trio.Lock()
        self.last: datetime | None = None
        self._polled_at = trio.current_time()
        self._took = 0.0
        self.governor = StallDetector("remote changes")
        self._brought = 0
        self._heard_at = -math.inf

    async def begin(self) -> None:
        """Have the feed note where it begins, before anything is listed.  Raises `RemoteError`."""
        await self._feed.begin()

    async def run(self) -> None:
        """Look for ever, at once when asked to."""
        while True:
            await self._health.reachable()
            told = False
            try:
                await self.begin()
                if not self._is_superfluous():
                    await self.poll()
                    told = self._feed.can_wait
            except errors.RootGone:
                # Told by the drive's health; it may be back at any time.
                await self._rest(self._interval())
                continue
            except errors.RemoteError as error:
                log.info("polling for remote changes failed: %s", error)
                rest = self.governor.stood_still(
                    f"Polling for remote changes fails: {explain(error).message}"
                )
                await self._rest(max(self._interval(), rest), least=rest)
                continue
            if told:
                await self._until_told()
            else:
                self.governor.progressed()
                await self._rest(self._until_next())

    def _until_next(self) -> float:
        """How long to rest after a look: never for minutes, since it may have waited for a connection that
        had died in silence."""
        worked = self._took if self._feed.read >= MANY_READ else 0.0
        return max(self._interval(), min(MOST_OF_THE_TIME * worked, SECOND_LOOK_SECONDS))

    def left_out(self) -> list[str]:
        """What the service tells of and cannot be held here, a line for each item."""
        return self._feed.left_out()

    def poke(self) -> None:
        """Look at once."""
        self._wanted.set()

    def _is_superfluous(self) -> bool:
        """Whether a listing is telling all this at the moment; one that takes long tells it too late."""
        # Events are cheap and are never told twice: they are not left to wait.
        if self._feed.can_wait:
            return False
        return self._hydrator.is_listing and trio.current_time() - self._polled_at < LISTING_SECONDS

    async def _rest(self, seconds: float, *, least: float = 0.0) -> None:
        """Until somebody asks, or so long; `least` even then, where asking got us nowhere again and again."""
        await trio.sleep(least)
        with trio.move_on_after(seconds - least):
            await self._wanted.wait()
        self._wanted.clear()

    async def _until_told(self) -> None:
        """Wait for news, for somebody who asks, or a minute; where waiting fails, for the interval."""
        failed = heard = False

        async def listen(scope: trio.CancelScope) -> None:
            nonlocal failed, heard
            try:
                heard = await self._feed.news()
            except errors.RemoteError as error:
                log.info("the long poll for changes failed: %s", error)
                failed = True
            scope.cancel()

        began, brought = trio.current_time(), self._feed.brought
        with trio.move_on_after(SECOND_LOOK_SECONDS * chance.uniform(1 - SPREAD, 1)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen, nursery.cancel_scope)
                await self._wanted.wait()
                nursery.cancel_scope.cancel()
        if heard and brought == self._brought and began - self._heard_at < STORM_SECONDS:
            # It tells of news again and again, and there are none.
            rest = self.governor.stood_still("The service announces changes but then returns none.")
        else:
            rest = 0.0
            if not failed:
                self.governor.progressed()
        self._brought, self._heard_at = brought, began
        gather = self._polled_at + GATHER_SECONDS - trio.current_time()
        await self._rest(self._interval() if failed else max(gather, rest, 0.0), least=rest)

    def _interval(self) -> float:
        if self._is_used():
            self._used_at = trio.current_time()
        recent = trio.current_time() - self._used_at < IN_USE_SECONDS
        seconds = self._seconds if recent else self._idle_seconds
        return seconds * chance.uniform(1 - SPREAD, 1 + SPREAD)

    async def poll(self) -> None:
        """Apply everything that was changed or deleted since the last time.  Raises `RemoteError`."""
        began = trio.current_time()
        async with self._polling:
            for _ in range(ATTEMPTS):
                if await self._feed.once():
                    break
            if local_work.ready_updates(self._db):
                await self._settle()
            self.last = clock.datetime_now(UTC)
        self._polled_at = trio.current_time()
        self._took = self._polled_at - began
