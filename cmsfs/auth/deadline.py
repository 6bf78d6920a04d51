"""Stops issuing tokens after a fixed time, for drives that are mounted for a limited time only.

Rule: it runs from when the drive is mounted, by a clock that nobody sets and that counts sleep.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio

from cmsfs import errors
from cmsfs.runtime import clock

if TYPE_CHECKING:
    # Loaded with the client, which a drive that starts does without at first.
    from cmsfs.auth.bearer import Fetch
    from cmsfs.models.enterprise.tokens import Token


class Deadline:
    """Expires `seconds` from now; 0 is never."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends = _now() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._ends - _now() if self._seconds else float("inf")

    def error(self) -> errors.NeedsLogin:
        """What whoever comes later is told."""
        return errors.NeedsLogin(
            f"The time that this drive was mounted for ({format_span(self._seconds)}) is over; "
            "`cmsfs umount` ends it."
        )

    def limiting(self, fetch: Fetch) -> Fetch:
        """`fetch`, whose tokens are not used beyond the deadline; it raises `NeedsLogin` then."""
        if not self._seconds:
            return fetch

        async def limited() -> Token:
            if self.left <= 0:
                raise self.error()
            token = await fetch()
            # A token's life is whole seconds; the last part of one is nobody's.
            if (seconds := int(min(token.expires_in, self.left))) < 1:
                raise self.error()
            return token.model_copy(update={"expires_in": seconds})

        return limited

    async def passed(self) -> None:
        """Wait until it has passed; for ever if there is none."""
        while (left := self.left) > 0:  # noqa: ASYNC110  (no clock tells of itself)
            # A machine that slept is told within a minute.
            await trio.sleep(min(left, 60.0))


def _now() -> float:
    return clock.clock_gettime(time.CLOCK_BOOTTIME)


def format_span(seconds: float) -> str:
    """A span as a person says it: 90 s, 30 min, 8 h, 2 days."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
