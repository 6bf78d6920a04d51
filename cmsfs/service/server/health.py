"""Whether the service lives, and whether it can answer: for load balancers and supervisors.

`/healthz` says that the process answers; `/readyz` that it reads its database, and 503 while it does not.

Rule: both are for anybody, and tell nothing else.
"""

import logging
import sqlite3

from starlette import requests, responses, routing

from cmsfs.service.storage.store import Store

log = logging.getLogger(__name__)

_LOOK = "SELECT id FROM enterprise LIMIT 1"
_HEADERS = {"Cache-Control": "no-store"}


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
    return responses.PlainTextResponse("ok\n", 200, _HEADERS)


routes = [
    routing.Route("/healthz", lives, methods=["GET"]),
    routing.Route("/readyz", is_ready, methods=["GET"]),
]
