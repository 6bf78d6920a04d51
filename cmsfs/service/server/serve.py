"""Serves the application on a socket, in the caller's nursery.

`cmsfs serve` runs this; so do the tests that speak real HTTP.  HTTP/1.1 only (http1.py): HTTP/2 in pure
Python is several times slower.

connections.py limits the number of connections, client_limits.py slow clients.

On shutdown it accepts no new connections, gives running requests STOP_SECONDS, and then aborts the rest.

Rule: loopback by default; with a certificate, TLS 1.2 or later.
"""

import errno
import fcntl
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trio

from cmsfs import errors
from cmsfs.service.admin import usage
from cmsfs.service.renditions import indexing
from cmsfs.service.server import access_log, app, client_limits, http1, metrics, rate_limits, sweeper
from cmsfs.service.server import tls as server_tls
from cmsfs.service.server.connections import Connections, Stream
from cmsfs.service.storage.store import Store
from cmsfs.service.webhooks import deliveries, receivers

log = logging.getLogger(__name__)

# Longer than clients keep idle connections (a minute): not every request is retried if its connection closes.
KEEP_ALIVE_SECONDS = 75

HANDSHAKE_SECONDS = 10

# How long running requests, such as large uploads, get to finish on shutdown.
STOP_SECONDS = 8.0

# A client that acknowledges nothing for this long is considered gone.
STALLED_MS = 60_000


async def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8472,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    public_url: str | None = None,
    rates: rate_limits.RateLimits | None = None,
    webhook_networks: receivers.Networks = (),
    metrics_address: tuple[str, int] | None = None,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` or cancelled; reports the URL that it listens on as started (port 0 picks a free
    one).

    `stop` shuts down gracefully, within STOP_SECONDS; cancellation aborts running requests at once.
    With `metrics_address`, a host and a port, metrics are served there over plain HTTP.
    Raises `UserError` if an address cannot be used or the certificate cannot be read.
    """
    names = {host.lower(), socket.gethostname().lower()}
    try:
        tls = None
        if certfile is not None:
            tls = server_tls.context(certfile, keyfile or certfile)
            names |= client_limits.certificate_names(certfile)
        listener = _listen(host, port)
    except OSError as error:
        raise errors.UserError(_reason(error, host, port, certfile)) from error
    scheme = "http" if tls is None else "https"
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
    with listener:
        connections = Connections()
        counts = usage.RequestCounts()
        inner = app.build(
            store,
            url,
            public_url=public_url,
            rates=rates,
            webhook_networks=webhook_networks,
            counts=counts,
        )
        observer = None if metrics_address is None else metrics.ServiceMetrics(store, connections)
        logged = access_log.AccessLog(
            client_limits.ClientLimits(inner, connections, names=frozenset(names), tls=tls is not None),
            proxied=public_url is not None,
            observer=observer,
        )
        async with trio.open_nursery() as nursery:
            if metrics_address is not None and observer is not None:
                nursery.start_soon(metrics.serve, observer, _listen_for_metrics(*metrics_address))
            nursery.start_soon(sweeper.run, store)
            nursery.start_soon(usage.run, store, counts)
            nursery.start_soon(indexing.run, store)
            nursery.start_soon(deliveries.run, store, webhook_networks)
            server = http1.Http1Server(logged, scheme=scheme, keep_alive_seconds=KEEP_ALIVE_SECONDS)
            await nursery.start(_run, server, connections, listener, tls, stop)
            log.info("serving on %s", url)
            task_status.started(url)
            if stop is not None:
                await stop.wait()
                with trio.move_on_after(STOP_SECONDS):
                    await logged.wait_until_idle()
                    await usage.write(store, counts)
                nursery.cancel_scope.cancel()


@contextmanager
def serving_lock(root: Path) -> Iterator[None]:
    """Hold the lock of the process that serves a store's folder; a new folder is created.

    Raises `UserError` with the id of the process that holds the lock.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(root / "serving.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.UserError(f"{root} cannot hold the service's data: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "another"
            message = (
                f"{root} is being served already, by process {holder}; end that, or choose another --data."
            )
            raise errors.UserError(message) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(lock)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=100)
    listener.setblocking(False)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MS)
    return listener


def _listen_for_metrics(host: str, port: int) -> socket.socket:
    try:
        listener = _listen(host, port)
    except OSError as error:
        message = f"Metrics cannot be served at {host} port {port}: {error.strerror or error}."
        raise errors.UserError(message) from error
    shown, port = listener.getsockname()[:2]
    log.info("metrics at http://%s:%d/metrics", f"[{shown}]" if ":" in shown else shown, port)
    return listener


async def _run(
    server: http1.Http1Server,
    connections: Connections,
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    stop: trio.Event | None,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Accept connections until `stop`, then let the open ones finish."""

    async def handle(stream: Stream) -> None:
        if not isinstance(stream, server_tls.TlsStream):
            await server.serve(stream)
            return
        with suppress(OSError, trio.BrokenResourceError, trio.TooSlowError):
            with trio.fail_after(HANDSHAKE_SECONDS):
                await stream.do_handshake()
            await server.serve(stream)

    async with trio.open_nursery() as serving:
        async with trio.open_nursery() as accepting:
            accepting.start_soon(connections.accept, listener, handle, tls, serving)
            task_status.started()
            await (trio.Event() if stop is None else stop).wait()
            accepting.cancel_scope.cancel()
        server.stop()


def _reason(error: OSError, host: str, port: int, certfile: Path | None) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use; choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} needs privileges you do not have; choose one above 1023 with --port."
    if isinstance(error, ssl.SSLError) or error.errno == errno.ENOENT:
        return f"The certificate {certfile} or its key cannot be used: {error.strerror or error}."
    return f"{host} port {port} cannot be listened on: {error.strerror or error}."
