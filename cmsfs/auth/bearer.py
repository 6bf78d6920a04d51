"""Adds the bearer token to every request; fetches and renews it before expiry, one renewal at a time.

`fetch` obtains a token (`auth.grants`); this module decides when to call it.

Rule: the token appears in the header and nowhere else: not in a log, a repr or an exception.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import httpx
import trio

from cmsfs.client.transport import wire
from cmsfs.models.enterprise.tokens import Token

Fetch = Callable[[], Awaitable[Token]]

# Renew this many seconds before expiry: a token that expires during a request costs a 401 and a retry, for an
# upload with its whole body.
EARLY = 60.0


class BearerAuth(httpx.Auth):
    """Sets the header; after a 401 renews the token and retries once.

    `also`: headers that are sent wherever the token is sent, and nowhere else.
    """

    def __init__(self, fetch: Fetch, *, also: Mapping[str, str] | None = None) -> None:
        self._fetch = fetch
        self._also = also or {}
        self._token: Token | None = None
        self._renew_at = 0.0
        self._fetches = 0  # finished ones, successful or not
        self._failure: Exception | None = None
        self._lock = (
            trio.Lock()
        )  # held during a fetch: all requests that need a new token wait for the same one

    def __repr__(self) -> str:
        return "BearerAuth()"

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token: Token | None = None
        for _ in range(2):
            token = await self.sign(request, token)
            response = yield request
            if not await self.is_refused(response):
                return

    async def sign(self, request: httpx.Request, refused: Token | None = None) -> Token:
        """Add a token other than `refused` to the request, and return it."""
        token = self._token
        if token is None or token is refused or trio.current_time() >= self._renew_at:
            token = await self._renewed()
        if self._also:
            request.headers.update(self._also)
        request.headers["authorization"] = f"Bearer {token.access_token.get_secret_value()}"
        return token

    async def is_refused(self, response: httpx.Response) -> bool:
        """Whether the token was rejected; then the response body has been read."""
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return False
        # Read with a limit here: httpx would read the body to its end, however long it is.
        await wire.read_whole(response, limit=wire.SMALL_BYTES)
        return True

    async def _renewed(self) -> Token:
        """Return a new token, from the fetch in progress or from one that starts here.

        Cancelled during a fetch: the next caller starts another one.
        """
        before = self._fetches
        async with self._lock:
            if self._fetches != before:
                # If every waiter retried a failed fetch in turn, the last one would wait for all of them.
                if self._failure is not None:
                    raise self._failure
                assert self._token is not None
                return self._token
            try:
                token = await self._fetch()
            except Exception as error:
                self._failure = error
                self._fetches += 1
                raise
            self._token, self._failure = token, None
            self._fetches += 1
            # A token with a lifetime of a minute or less is used for half of it.
            self._renew_at = trio.current_time() + max(token.expires_in - EARLY, token.expires_in / 2)
            return token
