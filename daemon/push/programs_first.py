"""Lets programs go first: nothing is sent for a while when programs change many things in quick succession.

Uploads take the processor that those programs wait for, and end no sooner for having begun during that time.

Rule: nothing waits here that somebody waits for (`hurrying`), and nothing waits longer than `ASIDE_SECONDS`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from cmsfs.journal.group_commit import PAUSE_SECONDS, GroupCommit
from cmsfs.runtime import clock
from cmsfs.wakeup import Signal

# How long at most, from the first of these changes on: then operations are sent one at a time.
ASIDE_SECONDS = 10.0

# As many changes without a pause, and a second on average: more than a person or a busy log file makes.
MANY_CHANGES = 16
MANY_A_SECOND = 20.0


class ProgramsFirst:
    """Tells whether programs are changing the drive, and waits for a pause of theirs."""

    def __init__(self, commit: GroupCommit) -> None:
        self._commit = commit
        self._hurries = 0
        self._hurry = Signal()
        # Whether the push stands aside now.
        self.is_aside = False

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """Context in which somebody waits for what is sent."""
        self._hurries += 1
        self._hurry.pulse()
        try:
            yield
        finally:
            self._hurries -= 1

    @property
    def is_hurried(self) -> bool:
        return self._hurries > 0

    @property
    def are_active(self) -> bool:
        """Whether a program is changing things on the drive right now, and nobody waits for the push."""
        return clock.monotonic() - self._commit.noted_at < PAUSE_SECONDS and not self.is_hurried

    @property
    def _are_busy(self) -> bool:
        since, count = self._commit.noted_since, self._commit.noted_count
        seconds = clock.monotonic() - since
        is_many = count >= max(MANY_CHANGES, MANY_A_SECOND * seconds)
        return is_many and seconds < ASIDE_SECONDS and self.are_active

    async def stand_aside(self) -> None:
        """Wait until they pause, or for as long as may be."""
        try:
            while self._are_busy:
                self.is_aside = True
                with trio.move_on_after(PAUSE_SECONDS):
                    await self._hurry.wait()
        finally:
            self.is_aside = False
