"""Rate limiting: the hook that delays each request attempt.

The wire knows the kind of a request (search, upload, download, token, other); priorities and the account's
remaining budget are known to upper layers, which provide a `RateGate`.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol


class RateGate(Protocol):
    """Delays requests to stay below a rate."""

    def turn(self, kind: str) -> AbstractAsyncContextManager[None]:
        """Wait until an attempt of this kind may be made; exit after its response."""

    def refused(self, kind: str, retry_after: float | None) -> None:
        """Called after a 429, with the seconds to wait if the service gave them."""


class UnlimitedGate:
    """Never delays a request."""

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncIterator[None]:
        yield

    def refused(self, kind: str, retry_after: float | None) -> None:
        """Nothing to remember."""
