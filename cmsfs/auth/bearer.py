"""Adds the bearer token to every request; fetches and renews it before expiry, one renewal at a time.

`fetch` is where a token comes from (`auth.grants`); this module decides when.

Rule: the token is in the header and nowhere else: not in a log, a repr or an exception.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

import httpx
import trio

from cmsfs.client.transport import wire
from cmsfs.models.enterprise.tokens import Token

Fetch = Callable[[], Awaitable[Token]]

# A token that ends while its request is on the way costs a refusal and a repeat, for an upload of the
# whole body.
EARLY = 60.0


class BearerAuth(httpx.Auth):
    """Sets the header; after a 401 renews the token and retries once.

    `also`: headers that go where the token goes, and nowhere else.
    """

    def __init__(self, fetch: Fetch, *, also: Mapping[str, str] | None = None) -> None:
        self._fetch = fetch
        self._also = also or {}
        self._token: Token | None = None
        self._renew_at = 0.0
        self._fetches = 0  # those that have ended, well or not
        self._failure: Exception | None = None
        self._lock = trio.Lock()  # held over a fetch: all who need the new token wait for the same one

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
        """Put the token into the request, another one than `refused`; that token."""
        token = self._token
        if token is None or token is refused or trio.current_time() >= self._renew_at:
            token = await self._renewed()
        if self._also:
            request.headers.update(self._also)
        request.headers["authorization"] = f"Bearer {token.access_token.get_secret_value()}"
        return token

    async def is_refused(self, response: httpx.Response) -> bool:
        """Whether the token is no longer good; then the answer has been read."""
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return False
        # Here, since httpx would read it to its end, however long that is.
        await wire.read_whole(response, limit=wire.SMALL_BYTES)
        return True

    async def _renewed(self) -> Token:
        """A new token: what the fetch brings that is under way, or one that begins here.

        Cancelled during a fetch: the next who needs a token fetches it.
        """
        before = self._fetches
        async with self._lock:
            if self._fetches != before:
                # Trying again where that failed, one waiter after the other, would make the last of them wait
                # for all.
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
            # A token of a minute or less still serves for half its life.
            self._renew_at = trio.current_time() + max(token.expires_in - EARLY, token.expires_in / 2)
            return token
