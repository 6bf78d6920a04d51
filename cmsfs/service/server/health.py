"""Whether the service lives, and whether it can answer: for load balancers and supervisors.

`/healthz` says that the process answers; `/readyz` that it reads its database and reaches its contents, and
503 while it does not.  A bucket is asked once in some seconds, however many ask here.

Rule: both are for anybody, and tell nothing else.
"""

import logging
import sqlite3

import trio
from starlette import requests, responses, routing

from cmsfs.runtime import threads
from cmsfs.service.storage.store import Store

log = logging.getLogger(__name__)

# For so long it is believed that contents can be reached, and that they cannot.
REACHED_SECONDS = 10.0
UNREACHED_SECONDS = 2.0

_LOOK = "SELECT id FROM enterprise LIMIT 1"
_HEADERS = {"Cache-Control": "no-store"}


class ContentsProbe:
    """Whether contents can be reached, as of some seconds ago at most."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked = -float("inf")
        self._found: OSError | None = None
        self._lock = trio.Lock()

    async def look(self) -> None:
        """Raises `OSError` if they cannot."""
        async with self._lock:
            known_for = UNREACHED_SECONDS if self._found is not None else REACHED_SECONDS
            if trio.current_time() - self._asked >= known_for:
                try:
                    await threads.run_sync(self._store.blobs.reach)
                    self._found = None
                except OSError as error:
                    self._found = error
                self._asked = trio.current_time()
        if self._found is not None:
            raise self._found


async def lives(request: requests.Request) -> responses.Response:
    return responses.PlainTextResponse("ok\n", 200, _HEADERS)


async def is_ready(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    try:
        # In a thread and on the loop: the connections may be different ones.
        await store.query(lambda read: read(_LOOK))
        store.read(_LOOK)
    except (sqlite3.Error, OSError) as error:
        log.warning("not ready: the database cannot be read: %s", error)
        headers = _HEADERS | {"Retry-After": "2"}
        return responses.PlainTextResponse("the database cannot be read\n", 503, headers)
    try:
        await request.app.contents_probe.look()
    except OSError as error:
        log.warning("not ready: the contents cannot be reached: %s", error.strerror or error)
        headers = _HEADERS | {"Retry-After": "2"}
        return responses.PlainTextResponse("the contents cannot be reached\n", 503, headers)
    return responses.PlainTextResponse("ok\n", 200, _HEADERS)


routes = [
    routing.Route("/healthz", lives, methods=["GET"]),
    routing.Route("/readyz", is_ready, methods=["GET"]),
]
