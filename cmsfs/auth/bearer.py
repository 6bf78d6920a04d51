"""Adds the bearer token to every request; fetches and renews it before expiry, one renewal at a time.

`fetch` is where a token comes from (`auth.grants`); this module decides when.

Rule: the token is in the header and nowhere else: not in a log, a repr or an exception.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable

import httpx
import trio

from cmsfs.models.enterprise.tokens import Token

Fetch = Callable[[], Awaitable[Token]]

# A token that ends while its request is on the way costs a refusal and a repeat, for an upload of the
# whole body.
EARLY = 60.0


class BearerAuth(httpx.Auth):
    """Sets the header; after a 401 renews the token and retries once."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._token: Token | None = None
        self._renew_at = 0.0
        self._fetches = 0
        self._failure: Exception | None = None
        self._lock = trio.Lock()  # held over a fetch: all who need the new token wait for the same one

    def __repr__(self) -> str:
        return "BearerAuth()"

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._current(refused=None)
        request.headers["authorization"] = f"Bearer {token.access_token.get_secret_value()}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            token = await self._current(refused=token)
            request.headers["authorization"] = f"Bearer {token.access_token.get_secret_value()}"
            yield request

    async def _current(self, *, refused: Token | None) -> Token:
        """A token that is good as far as we know and is not `refused`.

        Cancelled during a fetch: the next who needs a token fetches it.
        """
        if (token := self._good(refused)) is not None:
            return token
        before = self._fetches
        async with self._lock:
            if (token := self._good(refused)) is not None:
                return token
            if self._fetches != before and self._failure is not None:
                # The fetch that we waited for failed.  Trying again, one waiter after the other, would
                # make the last of them wait for all.
                raise self._failure
            try:
                token = await self._fetch()
            except Exception as error:
                self._failure = error
                raise
            else:
                self._failure = None
            finally:
                self._fetches += 1
            self._token = token
            # A token of a minute or less still serves for half its life.
            self._renew_at = trio.current_time() + max(token.expires_in - EARLY, token.expires_in / 2)
            return token

    def _good(self, refused: Token | None) -> Token | None:
        if self._token is None or self._token is refused or trio.current_time() >= self._renew_at:
            return None
        return self._token
