"""The service on a socket: Hypercorn's trio worker in the caller's nursery.

`cmsfs serve` runs this; so do the tests that speak real HTTP.  HTTP/1.1 only: HTTP/2 in pure Python is
several times slower.

To stop, it takes no new connection, gives what is being answered STOP_SECONDS, and cuts off the rest.

Rule: loopback unless told otherwise; with a certificate, TLS 1.2 or later and nothing older.
"""

import errno
import logging
import socket
import ssl
from pathlib import Path
from typing import Any

import hypercorn.config
import hypercorn.trio.run
import hypercorn.utils
import trio

from cmsfs import errors
from cmsfs.service import access_log, app, indexing, limits, sweeper
from cmsfs.service.store import Store

log = logging.getLogger(__name__)

# Hypercorn would close a connection after 1,000 requests, under a busy pool's hands.
_FOR_EVER = 2**31

# What is being answered when the service is to stop, an upload of gigabytes perhaps, has so long to end.
STOP_SECONDS = 10.0

# A client that takes no byte for so long is gone.  Hypercorn waits for it even while it is being stopped.
STALLED_MS = 60_000


async def serve(
    store: Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8472,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    public_url: str | None = None,
    rates: limits.Limits | None = None,
    stop: trio.Event | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` or cancelled; starts with the URL that it listens on (port 0 takes a free one).

    `stop` ends it gracefully, within STOP_SECONDS unless a client takes nothing of what is sent (STALLED_MS);
    cancelled: at once, and what is being answered is cut off.  Raises `UserError` if the address cannot be
    had or the certificate not be read.
    """
    config = hypercorn.config.Config()
    config.alpn_protocols = ["http/1.1"]
    config.keep_alive_max_requests = _FOR_EVER
    config.graceful_timeout = STOP_SECONDS
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    if certfile is not None:
        config.certfile = str(certfile)
        config.keyfile = str(keyfile or certfile)
    try:
        config.create_ssl_context()
        listener = _listen(host, port)
    except OSError as error:
        raise errors.UserError(_reason(error, host, port, certfile)) from error
    scheme = "https" if config.ssl_enabled else "http"
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
    sockets = hypercorn.config.Sockets([], [listener], [])
    if config.ssl_enabled:
        sockets = hypercorn.config.Sockets([listener], [], [])
    with listener:
        built = access_log.AccessLog(app.build(store, url, public_url=public_url, rates=rates))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sweeper.run, store)
            nursery.start_soon(indexing.run, store)
            await nursery.start(_run, built, config, sockets, stop)
            log.info("serving on %s", url)
            task_status.started(url)
            if stop is not None:
                await stop.wait()
                with trio.move_on_after(STOP_SECONDS):
                    await built.idle()
                nursery.cancel_scope.cancel()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=100)
    listener.setblocking(False)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MS)
    return listener


async def _run(
    built: Any,  # Hypercorn and Starlette each have types of their own for the same thing
    config: hypercorn.config.Config,
    sockets: hypercorn.config.Sockets,
    stop: trio.Event | None,
    *,
    task_status: trio.TaskStatus[list[str]],
) -> None:
    wrapped = hypercorn.utils.wrap_app(built, config.wsgi_max_body_size, "asgi")
    trigger = None if stop is None else stop.wait
    await hypercorn.trio.run.worker_serve(
        wrapped, config, sockets=sockets, shutdown_trigger=trigger, task_status=task_status
    )


def _reason(error: OSError, host: str, port: int, certfile: Path | None) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is in use; choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} of {host} needs rights that you do not have; choose one above 1023 with --port."
    if isinstance(error, ssl.SSLError) or error.errno == errno.ENOENT:
        return f"The certificate {certfile} or its key cannot be used: {error.strerror or error}."
    return f"{host} port {port} cannot be listened on: {error.strerror or error}."
