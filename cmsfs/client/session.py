"""`open_client` creates a `Client`, which has every API group as an attribute.

A client has one pool of HTTP/1.1 connections: HTTP/2 was measured four to five times slower here, because its
framing is pure Python, and it broke when a server closed a busy connection.

Rule: there are no deadlines for whole calls here; each caller sets its own.
"""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import cmsfs
from cmsfs import errors
from cmsfs.client.capabilities import Capabilities
from cmsfs.client.transport import bandwidth, hosts, rate_gate, retry, wire
from cmsfs.client.transport.lazy import httpx
from cmsfs.config.abilities import ServiceOffers

Counters = wire.Counters

# A host that does not accept a connection in ten seconds is unreachable.  A read may take a minute: the
# service checks and stores a whole upload before it responds.
TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0

# The drive reads with up to 62 requests at once (8 foreground, 6 read-ahead, 48 prefetch), uploads with 20,
# lists with 12, pins with 4 and polls with one; a foreground request must always find a free connection.
# (Only for connections through a proxy; others are opened as needed.)
LIMITS = {"max_connections": 112, "max_keepalive_connections": 32, "keepalive_expiry": 30}


# A router that drops a connection, or a laptop that changes networks, closes nothing.  A long poll is silent
# for ten minutes, so TCP keep-alive detects dead peers: after 30 seconds of silence, with three probes.
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    # Also for sent data that is not acknowledged.
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
]


@dataclass(frozen=True, slots=True)
class ServiceEndpoints:
    """The base URLs of a service, for JSON calls, uploads and tokens.  No trailing slashes."""

    base_url: str
    upload_url: str
    auth_url: str

    @property
    def addresses(self) -> tuple[str, str, str]:
        return (self.base_url, self.upload_url, self.auth_url)

    @classmethod
    def of_server(cls, url: str) -> ServiceEndpoints:
        """Return the three URLs of a `cmsfs serve` server."""
        return cls(base_url=f"{url}/2.0", upload_url=f"{url}/api/2.0", auth_url=url)


class Client(Capabilities):
    """The API of a service.  `counters`: requests by kind (search, upload, download, token, other).

    `offers`: which abilities the service lacks."""

    def __init__(self, wire: wire.Wire, endpoints: ServiceEndpoints) -> None:
        super().__init__(wire, endpoints)
        self.endpoints = endpoints
        self.offers = ServiceOffers()
        self.counters = wire.counters

    async def make_ready(self, connections: int) -> None:
        """Open connections, so that the first requests need not wait for handshakes; never fails."""
        await self.wire.make_ready(self.endpoints.base_url, connections)


@asynccontextmanager
async def open_client(
    endpoints: ServiceEndpoints,
    *,
    auth: httpx.Auth | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    ca_file: Path | None = None,
    timeout: httpx.Timeout | None = None,
    policy: retry.Policy | None = None,
    counters: Counters | None = None,
    pace: rate_gate.RateGate | None = None,
    flow: bandwidth.TransferLimits | None = None,
) -> AsyncIterator[Client]:
    """Open a client for the duration of the block.  `ca_file` is trusted in addition to the system's CAs.

    Raises `ConfigError` if `ca_file` cannot be used.
    """
    http = httpx.AsyncClient(
        transport=transport,
        verify=tls(ca_file) if transport is None else True,
        timeout=timeout or httpx.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT),
        limits=httpx.Limits(**LIMITS),
        headers={"user-agent": f"cmsfs/{cmsfs.__version__}", "accept-encoding": "gzip"},
    )
    own = {httpx.URL(url).host for url in endpoints.addresses}
    _keep_alive(http)
    _connect(http, hosts.Hosts(own))
    async with http:
        yield Client(
            wire.Wire(
                http,
                auth=auth,
                policy=policy or retry.Policy(),
                counters=Counters() if counters is None else counters,
                pace=pace or rate_gate.UnlimitedGate(),
                flow=flow,
                in_process=transport is not None,
                own=own,
            ),
            endpoints,
        )


def _keep_alive(http: httpx.AsyncClient) -> None:
    """Set TCP keep-alive, so that the kernel detects a dead peer and breaks the connection.

    Passing these options as an argument would need a transport of our own, with which httpx ignores proxies.
    """
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.AsyncHTTPTransport):
            transport._pool._socket_options = KEEP_ALIVE


def _connect(http: httpx.AsyncClient, own: hosts.Hosts) -> None:
    """Make connections read in large pieces, and check the addresses that they reached.  Connections to a
    proxy are not checked: the administrator chose it, and it resolves names itself."""
    # Imported here: these inherit from classes of httpx and httpcore.
    from cmsfs.client.transport import connections, direct_transport

    http._cookies = direct_transport.Cookies()
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.AsyncHTTPTransport):
            transport._pool._network_backend = connections.BulkBackend()
    if isinstance(direct := http._transport, httpx.AsyncHTTPTransport):
        guarded = direct._pool._network_backend = connections.OutboundGuard(connections.BulkBackend(), own)
        context = direct._pool._ssl_context
        assert context is not None
        http._transport = direct_transport.DirectTransport(
            direct, guarded, context, socket_options=KEEP_ALIVE
        )


def tls(ca_file: Path | None) -> ssl.SSLContext:
    """Return a TLS context for TLS 1.2 or later with the system's trust store, as its administrator set it
    up.

    Loading the store takes a tenth of a command's time, so the clients of a process share the context until
    `ca_file` changes.  Raises `ConfigError` if `ca_file` cannot be used.
    """
    changed = 0
    if ca_file is not None:
        with suppress(OSError):
            changed = ca_file.expanduser().stat().st_mtime_ns
    return _tls(ca_file, changed)


@functools.lru_cache(maxsize=4)
def _tls(ca_file: Path | None, _changed: int) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file.expanduser())
        except (OSError, ssl.SSLError) as error:
            raise errors.ConfigError(f"The authorities in {ca_file} cannot be used: {error}.") from None
    return context
