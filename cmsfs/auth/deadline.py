"""Stops issuing tokens after a fixed time, for drives that are mounted for a limited time only.

Rule: the time counts from the mount, by a clock that is never adjusted and that includes suspend.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from cmsfs import errors
from cmsfs.runtime import clock

if TYPE_CHECKING:
    # These import the client, which a starting drive does not load at first.
    from cmsfs.auth.bearer import Fetch
    from cmsfs.models.enterprise.tokens import Token


class Deadline:
    """Expires `seconds` from now; 0 means never."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = _now() + seconds

    @property
    def left(self) -> float:
        """The remaining seconds."""
        return self._ends - _now() if self._seconds else float("inf")

    def error(self) -> errors.NeedsLogin:
        """Return the error for requests after the deadline."""
        return errors.NeedsLogin(
            f"The time that this drive was mounted for ({format_span(self._seconds)}) is over; "
            "`cmsfs umount` ends it."
        )

    def limiting(self, fetch: Fetch) -> Fetch:
        """Wrap `fetch` so that its tokens expire at the deadline at the latest; then it raises
        `NeedsLogin`."""
        if not self._seconds:
            return fetch

        async def limited() -> Token:
            if self.left <= 0:
                raise self.error()
            token = await fetch()
            # Token lifetimes are whole seconds: the last fraction of one is not used.
            if (seconds := int(min(token.expires_in, self.left))) < 1:
                raise self.error()
            return token.model_copy(update={"expires_in": seconds})

        return limited

    async def passed(self) -> None:
        """Wait until the deadline has passed; forever if there is none."""
        while (left := self.left) > 0:  # noqa: ASYNC110  (a clock has no event to wait for)
            # After a suspend, notice within a minute.
            await trio.sleep(min(left, 60.0))


def _now() -> float:
    return clock.clock_gettime(time.CLOCK_BOOTTIME)


def format_span(seconds: float) -> str:
    """Format a duration for people: 90 s, 30 min, 8 h, 2 days."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
