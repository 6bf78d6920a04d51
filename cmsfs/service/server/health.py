"""Liveness and readiness endpoints for load balancers and supervisors.

`/healthz` answers while the process runs; `/readyz` checks that the database can be read and the contents
reached, and answers 503 otherwise.  A bucket is probed once in a few seconds, however many requests come.

Rule: both are public, and reveal nothing else.
"""

import logging
import sqlite3

import trio
from starlette import requests, responses, routing

from cmsfs.runtime import threads
from cmsfs.service.storage.store import Store

log = logging.getLogger(__name__)

# How long a successful and a failed probe are cached.
REACHED_SECONDS = 10.0
UNREACHED_SECONDS = 2.0

_PROBE_SQL = "SELECT id FROM enterprise LIMIT 1"
_HEADERS = {"Cache-Control": "no-store"}


class ContentsProbe:
    """Checks whether contents can be reached, and caches the result for some seconds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked_at = -float("inf")
        self._error: OSError | None = None
        self._lock = trio.Lock()

    async def check(self) -> None:
        """Raise `OSError` if contents cannot be reached."""
        async with self._lock:
            max_age = UNREACHED_SECONDS if self._error is not None else REACHED_SECONDS
            if trio.current_time() - self._checked_at >= max_age:
                try:
                    await threads.run_sync(self._store.blobs.check_reachable)
                    self._error = None
                except OSError as error:
                    self._error = error
                self._checked_at = trio.current_time()
        if self._error is not None:
            raise self._error


async def is_alive(request: requests.Request) -> responses.Response:
    return responses.PlainTextResponse("ok\n", 200, _HEADERS)


async def is_ready(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        # In a thread and on the event loop: these use different connections.
        await store.query(lambda read: read(_PROBE_SQL))
        store.read(_PROBE_SQL)
    except (sqlite3.Error, OSError) as error:
        log.warning("not ready: the database cannot be read: %s", error)
        headers = _HEADERS | {"Retry-After": "2"}
        return responses.PlainTextResponse("the database cannot be read\n", 503, headers)
    try:
        await request.app.contents_probe.check()
    except OSError as error:
        log.warning("not ready: the contents cannot be reached: %s", error.strerror or error)
        headers = _HEADERS | {"Retry-After": "2"}
        return responses.PlainTextResponse("the contents cannot be reached\n", 503, headers)
    return responses.PlainTextResponse("ok\n", 200, _HEADERS)


routes = [
    routing.Route("/healthz", is_alive, methods=["GET"]),
    routing.Route("/readyz", is_ready, methods=["GET"]),
]
