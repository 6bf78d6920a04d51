"""`cmsfs serve`: runs the embedded service as a network server.

Rule: it prints the URL and the path of the credentials, never the credentials.
"""

import functools
import ipaddress
import logging
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
import trio

from cmsfs import config, errors, gc_tuning, logs, output, process_env, sd_notify
from cmsfs.cli.support import context
from cmsfs.service.provisioning import demo, provisioning
from cmsfs.service.server import connections
from cmsfs.service.server import rate_limits as service_rate_limits
from cmsfs.service.server import serve as service_serve
from cmsfs.service.storage import store
from cmsfs.service.webhooks import receivers

log = logging.getLogger(__name__)

DEFAULT_PORT = 8472

# A client that does not read its response could delay the exit by another minute.  Exiting at any point loses
# nothing that was acknowledged.
_FORCED_STOP_SECONDS = service_serve.STOP_SECONDS + 2


_PLAIN_TEXT_ERROR = (
    "Without TLS, tokens and files are sent to {host} in plain text: give --tls-cert and "
    "--tls-key, or --insecure behind a TLS proxy."
)

# How many users are listed; --json lists all.
_MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class _Options:
    folder: Path
    database_url: str | None
    blobs_url: str | None
    host: str
    port: int
    certfile: Path | None
    keyfile: Path | None
    public_url: str | None
    rates: bool
    webhook_networks: receivers.Networks
    metrics: tuple[str, int] | None
    redirects: bool
    enterprise: provisioning.Enterprise | None
    as_json: bool

    @property
    def served(self) -> str:
        """What the operator calls it: the database (whose URL has no password), or the folder."""
        return self.database_url or str(self.folder)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Data folder (default: the demo's).")
@click.option(
    "--database",
    metavar="URL",
    help="Keep the database on a server, such as postgresql://cmsfs@db.example.com/cmsfs; the password comes "
    "from PGPASSFILE or the environment.",
)
@click.option(
    "--blobs",
    metavar="URL",
    help="Keep contents in a bucket, such as s3://bucket/prefix; keys come from the environment.",
)
@click.option(
    "--redirect-downloads",
    is_flag=True,
    help="Answer downloads by an address in the bucket, good for five minutes; needs --blobs.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain (PEM), for HTTPS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM).")
@click.option(
    "--enterprise-file",
    type=click.Path(path_type=Path),
    help="TOML file of users, apps, templates, holds...; missing ones are created, instead of the sample.",
)
@click.option("--insecure", is_flag=True, help="Allow plain HTTP on a network address.")
@click.option("--public-url", help="Public URL behind a proxy, such as https://files.example.com.")
@click.option("--rate-limits", is_flag=True, help="Enforce rate limits like those of the public API.")
@click.option(
    "--webhook-network",
    "webhook_networks",
    multiple=True,
    metavar="CIDR",
    help="Private network that webhooks may go to, such as 10.1.0.0/16; repeatable.",
)
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus there, at /metrics; on this machine alone unless a host is given.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Log format.")
@output.json_option
@context.pass_context
def serve(
    ctx: context.Context,
    data: Path | None,
    *,
    database: str | None,
    blobs: str | None,
    redirect_downloads: bool,
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    insecure: bool,
    enterprise_file: Path | None,
    public_url: str | None,
    rate_limits: bool,
    webhook_networks: tuple[str, ...],
    metrics: str | None,
    log_format: str | None,
    as_json: bool,
) -> None:
    """Run the built-in service as an HTTP server until interrupted.

    Without --enterprise-file a new service gets a sample enterprise.  The first Ctrl-C shuts down gracefully
    (requests get up to ten seconds to finish); the second stops immediately.
    """
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key must be given together.")
    if not (tls_cert or insecure or _is_loopback(host)):
        raise errors.UserError(_PLAIN_TEXT_ERROR.format(host=host), exit_code=2)
    for file in (tls_cert, tls_key):
        if file and not file.is_file():
            raise errors.UserError(f"{file} does not exist or is not a file.", exit_code=2)
    settings = ctx.settings()
    process_env.leave_no_core()
    connections.raise_descriptor_limit()
    logs.configure(settings.log_level, form=log_format or settings.log_format)
    gc_tuning.freeze_heap()
    trio.run(
        _serve,
        _Options(
            folder=data or config.service_data(settings),
            database_url=database,
            blobs_url=blobs,
            host=host,
            port=port,
            certfile=tls_cert,
            keyfile=tls_key,
            public_url=_parse_origin(public_url),
            rates=rate_limits,
            webhook_networks=[_parse_network(one) for one in webhook_networks],
            metrics=_parse_address(metrics),
            redirects=redirect_downloads,
            enterprise=provisioning.load(enterprise_file) if enterprise_file else None,
            as_json=as_json,
        ),
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        message = f"--webhook-network takes a network such as 10.1.0.0/16: {error}."
        raise errors.UserError(message, exit_code=2) from None


def _parse_address(text: str | None) -> tuple[str, int] | None:
    """Parse [HOST:]PORT.  Raises `UserError`."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        message = f"--metrics takes a port, or a host and a port such as 10.0.0.5:9090, not {text}."
        raise errors.UserError(message, exit_code=2)
    return host.strip("[]") or "127.0.0.1", int(port)


def _parse_origin(url: str | None) -> str | None:
    """The scheme and host of a URL.  Raises `UserError` if it is invalid or has more than these."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_origin = False
    if not is_origin or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        message = "--public-url takes a scheme, a host and optionally a port: https://files.example.com."
        raise errors.UserError(message, exit_code=2)
    return f"{parts.scheme}://{parts.netloc}"


async def _serve(options: _Options) -> None:
    if options.database_url is not None:
        async with store.open_store(
            options.folder,
            options.blobs_url,
            database_url=options.database_url,
            redirects=options.redirects,
        ) as opened:
            await _serve_store(opened, options)
        return
    # Lock first: opening the store may upgrade it, which no running server must experience.
    with service_serve.serving_lock(options.folder):
        async with store.open_store(options.folder, options.blobs_url, redirects=options.redirects) as opened:
            await _serve_store(opened, options)


async def _serve_store(opened: store.Store, options: _Options) -> None:
    ids = None
    if options.enterprise is not None:
        await provisioning.ensure(opened, options.enterprise)
        ids = provisioning.ids(opened, options.enterprise)
    elif options.database_url is None:
        if not demo.has_own_enterprise(opened):
            await demo.ensure_sample(opened)
    elif not opened.read("SELECT 1 FROM app LIMIT 1"):
        # The sample's credentials are in one process's folder, so other processes would not have them.
        raise errors.UserError("The database has no enterprise yet: give --enterprise-file.")
    stop = trio.Event()
    listen = functools.partial(
        service_serve.serve,
        opened,
        host=options.host,
        port=options.port,
        certfile=options.certfile,
        keyfile=options.keyfile,
        public_url=options.public_url,
        rates=service_rate_limits.RateLimits() if options.rates else None,
        webhook_networks=options.webhook_networks,
        metrics_address=options.metrics,
        stop=stop,
    )

    async def until_stopped(task_status: trio.TaskStatus[str]) -> None:
        await listen(task_status=task_status)
        nursery.cancel_scope.cancel()

    # The signal receiver is opened first, so that a signal during startup also shuts down cleanly.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_handle_signals, signals, stop)
            _print_startup(await nursery.start(until_stopped), options, ids)
            sd_notify.notify(READY=1, STATUS=f"serving {options.served}")


async def _handle_signals(signals: AsyncIterator[int], stop: trio.Event) -> None:
    """Shut down gracefully at the first signal; exit at the second, or if the shutdown takes too long."""
    await anext(signals)
    stop.set()
    sd_notify.notify(STOPPING=1)
    log.info("shutting down; another signal stops immediately")
    with trio.move_on_after(_FORCED_STOP_SECONDS):
        os._exit(128 + await anext(signals))
    log.warning("a client does not read its response; closing the connection")
    os._exit(0)


def _print_startup(url: str, options: _Options, ids: provisioning.Ids | None) -> None:
    shown = options.public_url or url
    if ids is not None:
        # The ids that an application needs to request tokens; none of them is secret.
        if options.as_json:
            output.document({"url": url, "enterprise_id": ids.enterprise, "user_ids": ids.users})
        else:
            output.say(f"Serving {options.served} at {shown}.  Ctrl-C ends it.")
            users = [f"{login} {number}" for login, number in ids.users.items()]
            more = f", and {len(users) - _MAX_LISTED} more (--json)" if len(users) > _MAX_LISTED else ""
            output.say(
                f"Ids: enterprise {ids.enterprise}; users {', '.join(users[:_MAX_LISTED]) or 'none'}{more}."
            )
        return
    credentials = options.folder / "credentials.json"
    has_sample = credentials.exists()  # of another start, the store may have an enterprise of its own
    if options.as_json:
        output.document({"url": url} | ({"credentials_file": str(credentials)} if has_sample else {}))
    else:
        where = f", credentials in {credentials}" if has_sample else ""
        output.say(f"Serving {options.served} at {shown}{where}.  Ctrl-C ends it.")
