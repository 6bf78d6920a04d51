"""From settings to a client that is ready: the embedded service in this process, or one on the network.

`open_backend` is used by the daemon and by the commands that speak with the service themselves.

Rule: it asks the service nothing; the caller's first request finds out whether all is well.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import trio

from cmsfs import config, errors
from cmsfs.auth import bearer, grants
from cmsfs.client import bandwidth, embedded, pacing, session

# Nobody listens there: the embedded service is reached through its transport, and a URL needs a host.
EMBEDDED_URL = "http://cmsfs.embedded"


@dataclass(frozen=True, slots=True)
class Way:
    """How the account's service is reached, and where its tokens come from."""

    endpoints: session.Endpoints
    transport: httpx.AsyncBaseTransport | None  # None: the network
    ca_file: Path | None
    anonymous: session.Client  # asks for tokens, and for nothing that needs one
    fetch: bearer.Fetch


@asynccontextmanager
async def open_way(settings: config.Settings, *, sample: bool = False) -> AsyncIterator[Way]:
    """The way to the account's service.  `sample` puts the sample enterprise into the embedded service.

    Raises `ConfigError` for credentials that are missing, `UserError` for an embedded service that has
    no data yet.
    """
    embedded_here = config.profile(settings).embedded
    opened = _embedded(settings, sample=sample) if embedded_here else _remote(settings)
    async with opened as way:
        yield way


@asynccontextmanager
async def open_backend(
    settings: config.Settings,
    *,
    sample: bool = False,
    counters: session.Counters | None = None,
    pace: pacing.Pacing | None = None,
    flow: bandwidth.Flow | None = None,
) -> AsyncIterator[session.Client]:
    """A client for the account, whose every request waits for its turn at `pace`, and whose files go no
    faster than `flow` lets them.

    `sample` and what is raised as with `open_way`.
    """
    async with (
        open_way(settings, sample=sample) as way,
        session.open_client(
            way.endpoints,
            auth=bearer.BearerAuth(way.fetch),
            transport=way.transport,
            ca_file=way.ca_file,
            counters=counters,
            pace=pace,
            flow=flow,
        ) as client,
    ):
        yield client


def flow_of(settings: config.Settings, clock: Callable[[], datetime] = datetime.now) -> bandwidth.Flow:
    """The limits of the settings, at the time of day that it is."""
    return bandwidth.Flow(
        up=lambda: settings.limits_at(clock().time())[0] or None,
        down=lambda: settings.limits_at(clock().time())[1] or None,
    )


@asynccontextmanager
async def _embedded(settings: config.Settings, *, sample: bool) -> AsyncIterator[Way]:
    # Here and not above: a remote account does not pay for loading the service.
    from cmsfs.service import app, demo, indexing, store, sweeper

    folder = config.service_data(settings)
    if not sample and not (folder / "credentials.json").exists():
        raise errors.UserError(
            "The embedded service holds nothing yet: `cmsfs demo` fills it, "
            f"or say in {config.config_file()} which service is to be used.",
            exit_code=2,
        )
    async with store.open_store(folder) as opened, trio.open_nursery() as nursery:
        credentials = await demo.ensure_sample(opened)
        nursery.start_soon(indexing.run, opened)
        nursery.start_soon(sweeper.run, opened)
        transport = embedded.EmbeddedTransport(app.build(opened), nursery)
        endpoints = session.Endpoints.of_server(EMBEDDED_URL)
        async with session.open_client(endpoints, transport=transport) as anonymous:
            fetch = grants.client_credentials(
                anonymous,
                credentials.client_id,
                credentials.client_secret,
                subject_type="user",
                subject_id=credentials.user_id,
            )
            yield Way(endpoints, transport, None, anonymous, fetch)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _remote(settings: config.Settings) -> AsyncIterator[Way]:
    profile = config.profile(settings)
    if not settings.client_id or not settings.client_secret_file or not settings.subject_id:
        raise errors.ConfigError(
            f"The account {settings.account!r} needs client_id, client_secret_file and subject_id "
            f"in {config.config_file()}."
        )
    secret = _secret(settings.client_secret_file)
    endpoints = session.Endpoints(profile.base_url, profile.upload_url, profile.auth_url)
    async with session.open_client(endpoints, ca_file=settings.ca_file) as anonymous:
        fetch = grants.client_credentials(
            anonymous,
            settings.client_id,
            secret,
            subject_type=settings.subject_type,
            subject_id=settings.subject_id,
        )
        yield Way(endpoints, None, settings.ca_file, anonymous, fetch)


def _secret(path: Path) -> str:
    try:
        secret = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise errors.ConfigError(f"The secret in {path} cannot be read: {reason}.") from None
    if not secret:
        raise errors.ConfigError(f"The file {path} holds no secret.")
    return secret
