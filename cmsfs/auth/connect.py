"""Builds an authenticated client from the settings: for the embedded service in this process, or a remote
one.

`open_backend` is used by the daemon and by commands that call the service directly.

Rule: it sends no request to the service; the caller's first request shows whether the connection works.
"""

import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import httpx
import trio

from cmsfs import config, errors
from cmsfs.auth import apps, bearer, grants, link_file, refusals, token_refresh, token_store
from cmsfs.auth.deadline import Deadline
from cmsfs.auth.endpoints import endpoints_of
from cmsfs.client import session
from cmsfs.client.content import shared_links
from cmsfs.client.transport import bandwidth, embedded, rate_gate
from cmsfs.models.enterprise import tokens, users
from cmsfs.runtime import clock, threads

log = logging.getLogger(__name__)

# The scopes of a read-only drive, and of one with full access.
READING = "base_explorer item_download"
CHANGING = "root_readwrite"


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How the account's service is reached, and how its tokens are obtained."""

    endpoints: session.ServiceEndpoints
    transport: httpx.AsyncBaseTransport | None  # None: the network
    ca_file: Path | None
    anonymous: session.Client  # sends no token; used to request tokens
    fetch: bearer.Fetch


@asynccontextmanager
async def open_access(
    settings: config.Settings,
    *,
    sample: bool = False,
    owner: token_refresh.Owner = token_refresh.any_owner,
    as_given: bool = False,
) -> AsyncIterator[ServiceAccess]:
    """Open access to the account's service.  `sample` creates the sample enterprise in the embedded service.
    A new login made meanwhile is picked up if it is the `owner`'s; with `as_given`, only the given settings
    are used, and the configuration is not read again.

    Raises `ConfigError` for missing credentials, `UserError` for an embedded service without data.
    """
    if settings.is_link and (account := link_file.read(settings.link_file).account):
        async with open_access(config.load(account), owner=owner) as way:
            yield way
        return
    embedded_here = config.profile(settings).embedded
    opened = _embedded(settings, sample=sample) if embedded_here else _remote(settings, owner, as_given)
    async with opened as way:
        yield way


@asynccontextmanager
async def open_narrowed(
    settings: config.Settings,
    *,
    find_root: Callable[[ServiceAccess], Awaitable[str]],
    deadline: Deadline,
    sample: bool = False,
    owner: token_refresh.Owner = token_refresh.any_owner,
    counters: session.Counters | None = None,
    pace: rate_gate.RateGate | None = None,
    flow: bandwidth.TransferLimits | None = None,
) -> AsyncIterator[session.Client]:
    """Open a client whose tokens are downscoped to the settings' folder and permissions, and are not used
    after the deadline.

    The account's full token is sent only to the token endpoint, to be downscoped.  `find_root` returns the
    folder's id, with the account's full permissions.  Raises the errors of `find_root` and of `open_backend`.
    """
    async with open_access(settings, sample=sample, owner=owner) as way:
        root_id = await find_root(way)
        resource = f"{way.endpoints.base_url}/folders/{root_id}" if settings.folder.strip("/") else None
        scope = READING if settings.read_only else CHANGING
        narrow = _of_folder(grants.downscoped(way.anonymous, way.fetch, scope, resource=resource))
        if settings.is_link and not settings.read_only:
            narrow = way.fetch  # already limited to what the link shows and permits
        async with session.open_client(
            way.endpoints,
            auth=bearer.BearerAuth(deadline.limiting(narrow), also=_link_header(settings)),
            transport=way.transport,
            ca_file=way.ca_file,
            counters=counters,
            pace=pace,
            flow=flow,
        ) as client:
            yield client


def _link_header(settings: config.Settings) -> Mapping[str, str]:
    """Return the header that names the shared link in every request, if an account's tokens are used for
    it."""
    if not settings.is_link or not (link := link_file.read(settings.link_file)).account:
        return {}
    password = None if link.password is None else link.password.get_secret_value()
    return shared_links.header(link.url.get_secret_value(), password)


def _of_folder(fetch: bearer.Fetch) -> bearer.Fetch:
    """Wrap `fetch`: an `invalid_resource` error means that the folder is gone, not that the login is
    invalid."""

    async def fetch_for_folder() -> tokens.Token:
        try:
            return await fetch()
        except errors.OAuthError as error:
            if error.error != "invalid_resource":
                raise
            raise errors.RootGone(refusals.ROOT_GONE) from error

    return fetch_for_folder


@asynccontextmanager
async def open_backend(
    settings: config.Settings,
    *,
    sample: bool = False,
    owner: token_refresh.Owner = token_refresh.any_owner,
    as_given: bool = False,
    counters: session.Counters | None = None,
    pace: rate_gate.RateGate | None = None,
    flow: bandwidth.TransferLimits | None = None,
) -> AsyncIterator[session.Client]:
    """Open a client for the account.  Every request passes the rate gate `pace`; transfers are limited by
    `flow`.

    `sample`, `owner`, `as_given` and errors as in `open_access`.
    """
    async with (
        open_access(settings, sample=sample, owner=owner, as_given=as_given) as way,
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


def flow_of(
    settings: config.Settings, now: Callable[[], datetime] | None = None
) -> bandwidth.TransferLimits | None:
    """Return the settings' transfer limits, which depend on the time of day; None if there are none at
    all."""
    if not (settings.bandwidth or settings.upload_limit or settings.download_limit):
        return None
    moment = now or clock.datetime_now
    return bandwidth.TransferLimits(
        up=lambda: settings.limits_at(moment().time())[0] or None,
        down=lambda: settings.limits_at(moment().time())[1] or None,
    )


@asynccontextmanager
async def _embedded(settings: config.Settings, *, sample: bool) -> AsyncIterator[ServiceAccess]:
    folder = config.service_data(settings)
    if not sample and not (folder / "credentials.json").exists():
        config.require_service(settings)
        raise errors.ConfigError("The embedded service holds nothing yet: `cmsfs demo` fills it.")
    # In a thread, so that the drive keeps answering programs.
    await threads.run_sync(_load_service)
    from cmsfs.service.provisioning import demo
    from cmsfs.service.renditions import indexing
    from cmsfs.service.server import app, sweeper
    from cmsfs.service.storage import store

    async with store.open_store(folder) as opened, trio.open_nursery() as nursery:
        credentials = await demo.ensure_sample(opened)
        nursery.start_soon(indexing.run, opened)
        nursery.start_soon(sweeper.run, opened)
        transport = embedded.EmbeddedTransport(app.build(opened), nursery)
        endpoints = endpoints_of(settings)
        async with session.open_client(endpoints, transport=transport) as anonymous:
            fetch = grants.client_credentials(
                anonymous,
                credentials.client_id,
                credentials.client_secret,
                subject_type="user",
                subject_id=credentials.user_id,
            )
            yield ServiceAccess(endpoints, transport, None, anonymous, fetch)
        nursery.cancel_scope.cancel()


def _load_service() -> None:
    """Import the embedded service; only here, so that remote accounts do not pay for it."""
    for name in ("provisioning.demo", "renditions.indexing", "server.app", "server.sweeper", "storage.store"):
        importlib.import_module(f"cmsfs.service.{name}")


@asynccontextmanager
async def _remote(
    settings: config.Settings, owner: token_refresh.Owner, as_given: bool
) -> AsyncIterator[ServiceAccess]:
    endpoints = endpoints_of(settings)
    async with session.open_client(endpoints, ca_file=settings.ca_file) as anonymous:
        if as_given:
            fetch = _source(_Login.of(settings), endpoints, anonymous, owner)
        else:
            fetch = _fetch(settings, endpoints, anonymous, owner)
        yield ServiceAccess(endpoints, None, settings.ca_file, anonymous, fetch)


async def user_of(settings: config.Settings, token: tokens.Token) -> users.User:
    """Ask the account's service which user the token belongs to."""

    async def fetch() -> tokens.Token:
        return token

    auth = bearer.BearerAuth(fetch)
    async with session.open_client(endpoints_of(settings), auth=auth, ca_file=settings.ca_file) as client:
        return await client.users.me()


def _fetch(
    settings: config.Settings,
    endpoints: session.ServiceEndpoints,
    anonymous: session.Client,
    owner: token_refresh.Owner,
) -> bearer.Fetch:
    """Return a `fetch` for the settings' tokens.  When they are rejected, it reads the configuration again: a
    new login may have another token store or another application.  The user of such a login is checked first,
    since an application's credentials do not say for whom they act."""
    login = _Login.of(settings)
    current = _source(login, endpoints, anonymous, owner)

    async def fetch() -> tokens.Token:
        nonlocal login, current
        try:
            return await current()
        except (errors.OAuthError, errors.TokensLocked):
            found = await token_refresh.blocking(lambda: _configured(settings.account, endpoints))
            if found is None or found == login:
                raise
            try:
                following = _source(found, endpoints, anonymous, owner)
            except errors.ConfigError as error:
                raise errors.NeedsLogin(error.message) from None
            token = await following()
            expected = owner()
            if expected is not None and (await user_of(found.settings, token)).id != expected:
                raise errors.NeedsLogin(refusals.ANOTHER) from None
        login, current = found, following
        log.info("the account has a new login")
        return token

    return fetch


@dataclass(frozen=True, slots=True)
class _Login:
    """The settings that determine where tokens come from."""

    settings: config.Settings = field(compare=False)
    values: tuple[object, ...]
    app: apps.Application | None  # None: stored with a person's tokens, or not needed for a link

    @classmethod
    def of(cls, settings: config.Settings) -> "_Login":
        app = None if settings.login in ("person", "link") else app_of(settings)
        return cls(settings, (settings.login, settings.token_store, *_subject(settings)), app)


def _subject(settings: config.Settings) -> tuple[str, str]:
    return (settings.subject_type, settings.subject_id)


def _configured(account: str, endpoints: session.ServiceEndpoints) -> _Login | None:
    """Return the login of the current configuration, if it is valid and for the same service."""
    try:
        settings = config.load(account)
        return _Login.of(settings) if endpoints_of(settings) == endpoints else None
    except errors.ConfigError:
        return None


def _source(
    login: _Login, endpoints: session.ServiceEndpoints, anonymous: session.Client, owner: token_refresh.Owner
) -> bearer.Fetch:
    settings, app = login.settings, login.app
    if settings.is_link:
        return grants.visiting(anonymous, settings.link_file)
    if app is None:
        lock = config.Paths(settings.account).token_lock
        return token_refresh.refreshing_fetch(anonymous, token_store.open_token_store(settings), lock, owner)
    subject = settings.subject_id or (app.user_id if settings.subject_type == "user" else app.enterprise_id)
    if not subject:
        raise errors.ConfigError(
            f"The account {settings.account!r} needs subject_id in {config.config_file()}: "
            f"the id of the {settings.subject_type} it speaks for."
        )
    if settings.login == "jwt":
        audience = f"{endpoints.auth_url}/oauth2/token"
        return grants.assertions(anonymous, app, audience, settings.subject_type, subject)
    return grants.client_credentials(
        anonymous, app.client_id, app.client_secret, subject_type=settings.subject_type, subject_id=subject
    )


def app_of(settings: config.Settings) -> apps.Application:
    """Return the application of the settings.  Raises `ConfigError`."""
    if settings.app_file is not None:
        return apps.read(settings.app_file)
    if not settings.client_id or not settings.client_secret_file:
        raise errors.ConfigError(
            f"The account {settings.account!r} has no login: `cmsfs login` makes one, or app_file, "
            f"or client_id, client_secret_file and subject_id in {config.config_file()}."
        )
    return apps.Application(settings.client_id, secret(settings.client_secret_file))


def secret(path: Path) -> str:
    """Read a secret from a file.  Raises `ConfigError`."""
    try:
        found = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise errors.ConfigError(f"The secret in {path} cannot be read: {reason}.") from None
    if not found:
        raise errors.ConfigError(f"The file {path} holds no secret.")
    return found
