"""The service of a drive, opened when the drive answers programs already; its client is there at once.

Loading the client's libraries and the embedded service is a third of a start, and reading its data another
part.  After a crash programs stand before an empty mountpoint meanwhile; so all of that comes after the mount
where the tree is known.

Rule: a request waits for the service that is being opened; if that fails, the drive ends, with its sentence.
"""

import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio

from cmsfs import config, errors, gc_tuning
from cmsfs.auth.deadline import Deadline
from cmsfs.auth.endpoints import endpoints_of
from cmsfs.client import session
from cmsfs.client.session import Client
from cmsfs.client.transport.late_wire import LateWire
from cmsfs.runtime import threads
from cmsfs.sqlite import Database
from daemon.core.health import Health
from daemon.core.request_scheduler import RequestScheduler

log = logging.getLogger(__name__)

# Connections that are opened at a start, since a handshake takes two round trips: a program that lists a
# folder then needs up to six for its pages, beside the long poll and what else a start asks for.
READY = 8


class LateService:
    """The account's service, and what ends with it.  Raises `ConfigError` for one without an address."""

    def __init__(
        self,
        settings: config.Settings,
        db: Database,
        *,
        sample: bool,
        pace: RequestScheduler,
        deadline: Deadline,
    ) -> None:
        self._settings = settings
        self._how: dict[str, Any] = {"sample": sample, "pace": pace, "deadline": deadline}
        self._db = db
        self._wire = LateWire()
        self.client = Client(self._wire, endpoints_of(settings))
        self._nursery: trio.Nursery | None = None
        self._opened = trio.Event()

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """While this is open the service may be; what goes wrong with its opening leaves here, in a group."""
        async with trio.open_nursery() as self._nursery:
            yield
            self._nursery.cancel_scope.cancel()

    async def open(self) -> None:
        """Return when the service is open.  If it cannot be opened, `lasting` is cancelled."""
        assert self._nursery is not None
        self._nursery.start_soon(self._run, name="service")
        await self._opened.wait()

    async def _run(self) -> None:
        try:
            # In threads: the drive answers programs meanwhile.
            async with trio.open_nursery() as nursery:
                if endpoints_of(self._settings).base_url.startswith("https:"):
                    nursery.start_soon(threads.run_sync, self._load_authorities)
                downscoped = await threads.run_sync(importlib.import_module, "daemon.downscoped")
            counters = self.client.counters
            async with downscoped.open_service(
                self._settings, self._db, counters=counters, **self._how
            ) as client:
                gc_tuning.freeze_heap()
                self._wire.become(client.wire)
                self._opened.set()
                await client.make_ready(READY)
                await trio.sleep_forever()
        finally:
            self._wire.give_up()

    def _load_authorities(self) -> None:
        """Load what TLS trusts, which the client then has; if it cannot be used, that says so."""
        with suppress(errors.ConfigError):
            session.tls(self._settings.ca_file)


async def watch_deadline(deadline: Deadline, health: Health) -> None:
    """When the time is over, say so to everybody who asks for the drive's health."""
    await deadline.passed()
    error = deadline.error()
    log.warning("%s", error.message)
    health.failed(error)
