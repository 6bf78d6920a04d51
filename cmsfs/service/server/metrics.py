"""Metrics for Prometheus, on an address of their own (`cmsfs serve --metrics`).

Requests are counted when they end, by method, route and status; figures of the store and its queues are
queried at each scrape.  The process's CPU time, memory and descriptors are included.

The library is imported only if metrics are enabled; it belongs to `cmsfs[server]`.

Rule: no label contains an id, a name or an address.
"""

import math
import shutil
import socket
import sqlite3
from typing import Any

import trio
from starlette import requests, responses, types

from cmsfs import errors
from cmsfs.service.server import http1
from cmsfs.service.server.connections import Connections
from cmsfs.service.storage import store as service_store
from cmsfs.service.storage.store import Store

# From a point read to an upload of minutes; each bucket adds a line per label.
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10, 60)

# One or two programs scrape every few seconds.
_KEEP_ALIVE_SECONDS = 75

_STORED = "SELECT count(*) AS users, coalesce(sum(space_used), 0) AS bytes FROM account"
_WAITING = {
    "index": "SELECT count(*) AS n FROM unindexed",
    "webhooks": "SELECT count(*) AS n FROM webhook_delivery",
    "uploads": "SELECT count(*) AS n FROM upload_session WHERE committed = 0",
}


class ServiceMetrics:
    """The metrics of one server; an application that answers `GET /metrics` with them.

    Raises `UserError` if the library is not installed.
    """

    def __init__(self, store: Store, connections: Connections) -> None:
        try:
            import prometheus_client
        except ImportError as error:
            message = "Metrics need the library prometheus-client: pip install 'cmsfs[server]'."
            raise errors.UserError(message) from error
        self._store = store
        self._connections = connections
        self._format = prometheus_client.exposition
        self._registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)

        def counter(name: str, message: str, *labels: str) -> prometheus_client.Counter:
            return prometheus_client.Counter(name, message, labels, registry=registry)

        def gauge(name: str, message: str, *labels: str) -> prometheus_client.Gauge:
            return prometheus_client.Gauge(name, message, labels, registry=registry)

        labels = ("method", "route")
        self._requests = counter(
            "cmsfs_requests", "Requests by route and status; 0: gone.", *labels, "status"
        )
        self._seconds = prometheus_client.Histogram(
            "cmsfs_request_seconds",
            "Time until the answer was sent, long polls aside.",
            labels,
            registry=registry,
            buckets=_SECONDS,
        )
        self._received = counter("cmsfs_received_bytes", "Bytes of request bodies.")
        self._sent = counter("cmsfs_sent_bytes", "Bytes of response bodies.")
        self._running = gauge("cmsfs_requests_in_progress", "Requests being answered, long polls aside.")
        self._polls = gauge("cmsfs_long_polls", "Clients that wait for events.")
        self._open = gauge("cmsfs_connections", "Open connections.")
        self._connection_limit = gauge("cmsfs_connections_limit", "Connections that there may be.")
        self._reachable = gauge(
            "cmsfs_database_reachable", "1 if the database answered; 0: its figures are NaN."
        )
        self._users = gauge("cmsfs_users", "Users of all enterprises.")
        self._bytes = gauge("cmsfs_stored_bytes", "Bytes that count against users' quotas.")
        self._free = gauge("cmsfs_data_free_bytes", "Space left on the data folder's disk.")
        self._waiting = gauge(
            "cmsfs_waiting", "What waits: files to index, deliveries, open uploads.", "queue"
        )

    def request_started(self, *, is_long_poll: bool) -> None:
        (self._polls if is_long_poll else self._running).inc()

    def request_finished(
        self,
        method: str,
        route: str,
        status: int,
        *,
        seconds: float,
        received_bytes: int,
        sent_bytes: int,
        is_long_poll: bool,
    ) -> None:
        """Count a finished request."""
        (self._polls if is_long_poll else self._running).dec()
        self._requests.labels(method, route, str(status)).inc()
        self._received.inc(received_bytes)
        self._sent.inc(sent_bytes)
        if not is_long_poll:
            self._seconds.labels(method, route).observe(seconds)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        request = requests.Request(scope, receive, send)
        if request.url.path != "/metrics":
            answer: responses.Response = responses.PlainTextResponse("Metrics are at /metrics.\n", 404)
        elif request.method not in ("GET", "HEAD"):
            answer = responses.PlainTextResponse("GET it.\n", 405, {"Allow": "GET, HEAD"})
        else:
            await self._update_gauges()
            encode, kind = self._format.choose_encoder(request.headers.get("accept", ""))
            text = encode(self._registry)
            answer = responses.Response(text, 200, {"Content-Type": kind, "Cache-Control": "no-store"})
        await answer(scope, receive, send)

    async def _update_gauges(self) -> None:
        def ask(read: service_store.Read) -> dict[str, Any]:
            found: dict[str, Any] = {name: read(sql)[0]["n"] for name, sql in _WAITING.items()}
            return found | dict(read(_STORED)[0])

        try:
            found = await self._store.query(ask)
            self._reachable.set(1)
        except sqlite3.OperationalError:
            # What the process knows by itself is told all the same.
            found = dict.fromkeys(("users", "bytes", *_WAITING), math.nan)
            self._reachable.set(0)
        self._users.set(found["users"])
        self._bytes.set(found["bytes"])
        for name in _WAITING:
            self._waiting.labels(name).set(found[name])
        self._free.set(shutil.disk_usage(self._store.root).free)
        self._open.set(len(self._connections))
        self._connection_limit.set(self._connections.limit)


async def serve(metrics: ServiceMetrics, listener: socket.socket) -> None:
    """Serve metrics until cancelled."""
    server = http1.Http1Server(metrics, scheme="http", keep_alive_seconds=_KEEP_ALIVE_SECONDS)
    taken = Connections(16)
    async with trio.open_nursery() as nursery:
        await taken.accept(listener, server.serve, None, nursery)
