"""User logins: a drive's tokens are on its machine's disk, and each refresh invalidates the previous pair.

A pair that is lost in transit, or with the process that received it, ends the login, and so does one that was
not used until it expired: the user logs in again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx
import trio

from cmsfs import config, errors
from cmsfs.auth import bearer, token_refresh, token_store
from cmsfs.client import session
from cmsfs.runtime import clock
from cmsfs.service.oauth import access_tokens
from cmsfs.sqlite import Connection
from daemon.core.health import Health
from daemon.core.request_scheduler import RequestScheduler
from tests.simulation.world import acting

if TYPE_CHECKING:
    from tests.simulation.machines import Service

# How long it takes the user to notice that the drive asks for a login.
NOTICED_SECONDS = 20.0


class Login:
    """The login of one machine."""

    def __init__(self, paths: config.Paths, service: "Service", user: int) -> None:
        self._tokens = token_store.FileTokenStore(paths.token)
        self._lock = paths.token_lock
        self._service = service
        self._user = user
        self.login_count = 0
        self.pairs_issued = 0  # token pairs that the service issued, received or not
        self.pairs_stored = 0
        self._stored_at = 0  # the last pair, by the service's clock in microseconds
        self._expirations = 0
        # Jumps of the time during requests: the renewed token may have expired on its way, too.
        self.jumps = 0

    def note_issued(self, count: int) -> None:
        """Record that the service issues a pair (1), or that it did not (-1)."""
        self.pairs_issued += count

    def note_stored(self) -> None:
        """Record that the machine has stored a pair."""
        self.pairs_stored += 1
        self._stored_at = self._now()

    def _now(self) -> int:
        """The service's time, which its clock never falls behind again."""
        with acting(self._service.name):
            return self._service.store.now()

    async def log_in(self) -> None:
        """Log in, as a user does at the service's page."""
        if self._service.transport() is None:
            return
        store, user, now = self._service.store, self._user, self._now()
        if self.login_count:
            # The last pair was issued a moment before it was stored.
            age = now - self._stored_at + 60 * access_tokens.SECOND
            self._expirations += age >= access_tokens.REFRESH_LIFETIME

        def txn(conn: Connection) -> dict[str, str]:
            family = access_tokens.begin_family(conn, "tests", user, granted=None, now=now)
            return access_tokens.issue_pair(conn, family, now=now)

        pair = await store.write(txn)
        ends = clock.time() + float(pair["expires_in"])
        login = token_store.StoredLogin(
            "tests", "secret", pair["refresh_token"], pair["access_token"], ends, str(user)
        )
        await token_refresh.renew(self._tokens, login, self._lock)
        self.login_count += 1

    async def log_in_when_refused(self, health: Health) -> None:
        """Log in again whenever the drive asks for it; runs until cancelled."""
        while True:
            while not health.is_refused:
                await health.changed()
            await trio.sleep(NOTICED_SECONDS)
            if health.is_refused:
                # The daemon may wait for an answer to its last refresh: then the user tries again.
                with suppress(errors.TokensLocked):
                    await self.log_in()

    @asynccontextmanager
    async def client(
        self, endpoints: session.ServiceEndpoints, transport: httpx.AsyncBaseTransport, pace: RequestScheduler
    ) -> AsyncIterator[session.Client]:
        """Open a client as `auth.connect` does for a logged-in account."""
        while not self.login_count:
            await self.log_in()
            await trio.sleep(1)
        async with session.open_client(endpoints, transport=transport) as anonymous:
            auth = bearer.BearerAuth(token_refresh.refreshing_fetch(anonymous, self._tokens, self._lock))
            async with session.open_client(endpoints, auth=auth, transport=transport, pace=pace) as client:
                yield client

    def find_unexplained_logins(self) -> str | None:
        """Return a description if there were more new logins than token pairs that were lost or expired."""
        lost = self.pairs_issued - self.pairs_stored + self._expirations + self.jumps
        again = self.login_count - 1
        return f"{again} logins anew, and {lost} pairs of tokens lost or expired" if again > lost else None
