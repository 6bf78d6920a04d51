"""Rate limiting: the hook that delays each request attempt.

The wire knows which kind of request it is (search, upload, download, token, other); who asks for it, and
what the account may still spend, is known above, and comes in as a `RateGate`.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol


class RateGate(Protocol):
    """Delays requests to stay below a rate."""

    def turn(self, kind: str) -> AbstractAsyncContextManager[None]:
        """Entered when one attempt of this kind may be made, left when it has been answered."""

    def refused(self, kind: str, retry_after: float | None) -> None:
        """The service said that there were too many (429), and when to come back, if it did."""


class UnlimitedGate:
    """Lets every request go at once."""

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        yield

    def refused(self, kind: str, retry_after: float | None) -> None:
        """Nothing to remember."""
