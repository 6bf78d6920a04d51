"""Logins of people: a drive's tokens lie on its machine's disk, and each refresh uses up the pair before.

A pair that is lost on its way, or with the process that got it, ends the login: a person logs in anew then.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import trio

from cmsfs import config
from cmsfs.auth import bearer, token_refresh, token_store
from cmsfs.client import session
from cmsfs.runtime import clock
from cmsfs.service.oauth import access_tokens
from cmsfs.sqlite import Connection
from daemon.core.health import Health
from daemon.core.request_scheduler import RequestScheduler

if TYPE_CHECKING:
    from tests.simulation.machines import Service

# So long it takes a person to notice that the drive wants a login.
NOTICED_SECONDS = 20.0


class Login:
    """The login of one machine."""

    def __init__(self, paths: config.Paths, service: "Service", user: int) -> None:
        self._keep = token_store.FileTokenStore(paths.token)
        self._lock = paths.token_lock
        self._service = service
        self._user = user
        self.made = 0
        self.asked = 0  # pairs that the service has given, whoever heard of it
        self.kept = 0

    async def make(self) -> None:
        """A person logs in, at the service's page."""
        if self._service.transport() is None:
            return
        store, user = self._service.store, self._user

        def txn(conn: Connection) -> dict[str, str]:
            family = access_tokens.begin_family(conn, "tests", user, granted=None, now=store.now())
            return access_tokens.pair(conn, family, now=store.now())

        pair = await store.write(txn)
        ends = clock.time() + float(pair["expires_in"])
        login = token_store.StoredLogin(
            "tests", "secret", pair["refresh_token"], pair["access_token"], ends, str(user)
        )
        await token_refresh.renew(self._keep, login, self._lock)
        self.made += 1

    async def made_anew(self, health: Health) -> None:
        """A person logs in whenever the drive wants that, for ever."""
        while True:
            while not health.is_refused:
                await health.changed()
            await trio.sleep(NOTICED_SECONDS)
            if health.is_refused:
                await self.make()

    @asynccontextmanager
    async def client(
        self, endpoints: session.ServiceEndpoints, transport: httpx.AsyncBaseTransport, pace: RequestScheduler
    ) -> AsyncIterator[session.Client]:
        """A client as `auth.connect` makes it for an account that somebody is logged in to."""
        while not self.made:
            await self.make()
            await trio.sleep(1)
        async with session.open_client(endpoints, transport=transport) as anonymous:
            auth = bearer.BearerAuth(token_refresh.refreshing_fetch(anonymous, self._keep, self._lock))
            async with session.open_client(endpoints, auth=auth, transport=transport, pace=pace) as client:
                yield client

    def unexplained(self) -> str | None:
        """More logins than were lost, in words."""
        again, lost = self.made - 1, self.asked - self.kept
        return f"{again} logins anew, and {lost} pairs of tokens were lost" if again > lost else None
