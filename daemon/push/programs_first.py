"""Lets programs go first: nothing is sent for a while when programs change many things in quick succession.

Uploads take the processor that those programs wait for, and end no sooner for having begun during that time.

Rule: nothing waits here that somebody waits for (`hurrying`), and nothing waits longer than `ASIDE_SECONDS`
(`cmsfs.journal.group_commit`): then operations are sent one at a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from cmsfs.journal.group_commit import PAUSE_SECONDS, GroupCommit
from cmsfs.runtime import clock
from cmsfs.wakeup import Signal


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

    async def stand_aside(self) -> None:
        """Wait until they pause, or for as long as may be."""
        try:
            while self._commit.are_programs_busy and not self.is_hurried:
                self.is_aside = True
                with trio.move_on_after(PAUSE_SECONDS):
                    await self._hurry.wait()
        finally:
            self.is_aside = False
