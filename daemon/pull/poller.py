"""The pull loop: applies remote changes within seconds.

The feed finds the changes: by search, every few seconds while the drive is in use and rarely otherwise; or
from the event stream, as soon as the service announces an event.

Changes that collide with a pending local operation are deferred (`deferred_updates`).

Rule: only one poll runs at a time, and polling never takes all of the drive's time.
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

# Random spread, so that a thousand drives started together do not poll together.
SPREAD = 0.2

# How long after its last use the drive counts as in use.
IN_USE_SECONDS = 60.0

ATTEMPTS = 3

# How long a running listing replaces polls.
LISTING_SECONDS = 30.0

# While thousands of our own changes come back with every poll, a poll takes seconds; the drive needs four
# fifths of its time for other work.  A poll that read less than this spent its time waiting, for its turn or
# for a slow service, and does not reduce the polling rate.
MOST_OF_THE_TIME = 4
MANY_READ = 500

# A dead connection announces nothing: poll at least this often, whatever the service announces.
SECOND_LOOK_SECONDS = 60.0

# A long poll that returns sooner than this without news counts as a failure.
MIN_WAIT_SECONDS = 10.0

# After an announcement: the first change of a burst is fetched at once, those that follow together.
GATHER_SECONDS = 0.5


class Feed(Protocol):
    """A source of remote changes since the last poll."""

    can_wait: bool  # whether the service announces changes
    brought: int  # number of polls that found changes
    read: int  # number of items read by the last poll

    async def begin(self, *, is_late: bool = False) -> None:
        """Store where to begin, if that is not known; `is_late`: not before the first listing.  Raises
        `RemoteError`."""

    async def once(self) -> bool:
        """Apply new changes; return whether that was all.  Raises `RemoteError`.

        Cancelled or failed: what was applied stays, and the next poll continues from there.
        """

    def left_out(self) -> list[str]:
        """Return a line for each changed item that cannot be stored here."""

    async def news(self) -> bool:
        """Wait for changes; False: poll anyway.  Raises `RemoteError`."""


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
        self.seconds = seconds
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

    async def begin(self, *, is_late: bool = False) -> None:
        """Let the feed store where it begins, as `Feed.begin`.  Raises `RemoteError`."""
        await self._feed.begin(is_late=is_late)

    async def run(self) -> None:
        """Poll forever, and immediately on request."""
        while True:
            await self._health.reachable()
            told = False
            try:
                await self._feed.begin(is_late=True)
                if not self._is_redundant():
                    await self.poll()
                    told = self._feed.can_wait
            except errors.RootGone:
                # The health agent learns when the service is back, at any time.
                await self._sleep(self._interval())
                continue
            except errors.RemoteError as error:
                log.info("polling for remote changes failed: %s", error)
                rest = self.governor.stood_still(
                    f"Polling for remote changes fails: {explain(error).message}"
                )
                await self._sleep(max(self._interval(), rest), least=rest)
                continue
            if told:
                await self._wait_for_news()
            else:
                self.governor.progressed()
                await self._sleep(self._pause_after_poll())

    def _pause_after_poll(self) -> float:
        """Return the pause after a poll: never minutes, since the poll may have waited for a dead
        connection."""
        worked = self._took if self._feed.read >= MANY_READ else 0.0
        return max(self._interval(), min(MOST_OF_THE_TIME * worked, SECOND_LOOK_SECONDS))

    def left_out(self) -> list[str]:
        """Return a line for each changed item that cannot be stored here."""
        return self._feed.left_out()

    def poke(self) -> None:
        """Poll immediately."""
        self._wanted.set()

    def _is_redundant(self) -> bool:
        """Whether a running listing already delivers the changes; a long one delivers them too late."""
        # Events are cheap and are not repeated, so they are never skipped.
        if self._feed.can_wait:
            return False
        return self._hydrator.is_listing and trio.current_time() - self._polled_at < LISTING_SECONDS

    async def _sleep(self, seconds: float, *, least: float = 0.0) -> None:
        """Wait for a request or this long; at least `least`, after requests that repeatedly got nowhere."""
        await trio.sleep(least)
        with trio.move_on_after(seconds - least):
            await self._wanted.wait()
        self._wanted.clear()

    async def _wait_for_news(self) -> None:
        """Wait for an announcement, a request, or a minute; for the interval if waiting fails."""
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
        if heard and brought == self._brought and began - self._heard_at < MIN_WAIT_SECONDS:
            # The service keeps announcing changes that do not exist.
            rest = self.governor.stood_still("The service announces changes but then returns none.")
        else:
            rest = 0.0
            if not failed:
                self.governor.progressed()
        self._brought, self._heard_at = brought, began
        gather = self._polled_at + GATHER_SECONDS - trio.current_time()
        await self._sleep(self._interval() if failed else max(gather, rest, 0.0), least=rest)

    def _interval(self) -> float:
        if self._is_used():
            self._used_at = trio.current_time()
        recent = trio.current_time() - self._used_at < IN_USE_SECONDS
        seconds = self.seconds if recent else self._idle_seconds
        return seconds * chance.uniform(1 - SPREAD, 1 + SPREAD)

    async def poll(self) -> None:
        """Apply all changes and deletions since the last poll.  Raises `RemoteError`."""
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
