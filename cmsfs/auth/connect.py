"""Builds a ready client from the settings: for the embedded service in this process, or one on the network.

`open_backend` is used by the daemon and by the commands that speak with the service themselves.

Rule: it asks the service nothing; the caller's first request finds out whether all is well.
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

# What a drive asks of the service, when it only reads and when it does all it can.
READING = "base_explorer item_download"
CHANGING = "root_readwrite"


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """How the account's service is reached, and where its tokens come from."""

    endpoints: session.ServiceEndpoints
    transport: httpx.AsyncBaseTransport | None  # None: the network
    ca_file: Path | None
    anonymous: session.Client  # asks for tokens, and for nothing that needs one
    fetch: bearer.Fetch


@asynccontextmanager
async def open_access(
    settings: config.Settings,
    *,
    sample: bool = False,
    owner: token_refresh.Owner = token_refresh.any_owner,
    as_given: bool = False,
) -> AsyncIterator[ServiceAccess]:
    """The way to the account's service.  `sample` puts the sample enterprise into the embedded service.
    A login that is made anew meanwhile is taken up if it is the `owner`'s; not if the settings are to be used
    `as_given`, whatever the configuration says.

    Raises `ConfigError` for credentials that are missing, `UserError` for an embedded service that has
    no data yet.
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
    """A client whose every request has a token that can do no more than the settings' folder and rights,
    and is not used after the deadline.

    The account's own token goes to the token endpoint only, to be narrowed.  `find_root` tells the id of the
    folder, by the account's own rights.  Raises what it raises, and what `open_backend` does.
    """
    async with open_access(settings, sample=sample, owner=owner) as way:
        root_id = await find_root(way)
        resource = f"{way.endpoints.base_url}/folders/{root_id}" if settings.folder.strip("/") else None
        scope = READING if settings.read_only else CHANGING
        narrow = _of_folder(grants.downscoped(way.anonymous, way.fetch, scope, resource=resource))
        if settings.is_link and not settings.read_only:
            narrow = way.fetch  # it is for no more than the link shows, and lets be done
        async with session.open_client(
            way.endpoints,
            auth=bearer.BearerAuth(deadline.limiting(narrow), also=_naming(settings)),
            transport=way.transport,
            ca_file=way.ca_file,
            counters=counters,
            pace=pace,
            flow=flow,
        ) as client:
            yield client


def _naming(settings: config.Settings) -> Mapping[str, str]:
    """What names a link to the service in every request, where an account's tokens are asked with for it."""
    if not settings.is_link or not (link := link_file.read(settings.link_file)).account:
        return {}
    password = None if link.password is None else link.password.get_secret_value()
    return shared_links.header(link.url.get_secret_value(), password)


def _of_folder(fetch: bearer.Fetch) -> bearer.Fetch:
    """A refusal of the folder is none of the login: it is told as what it is."""

    async def found() -> tokens.Token:
        try:
            return await fetch()
        except errors.OAuthError as error:
            if error.error != "invalid_resource":
                raise
            raise errors.RootGone(refusals.ROOT_GONE) from error

    return found


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
    """A client for the account, whose every request waits for its turn at `pace`, and whose files go no
    faster than `flow` lets them.

    `sample`, `owner` and what is raised as with `open_access`.
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
    """The limits of the settings, at the time of day that it is; None if there are none at any time."""
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
    # In a thread: the drive answers programs meanwhile.
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
    """Load the embedded service.  Not at the top of this file: a remote account does not pay for it."""
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
    """Ask the account's service whose token that is."""

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
    """Where the account's tokens come from, as its settings say; once they are refused, as the configuration
    says by then: a new login may have come with another place for its tokens, or another application.  Such a
    one is asked first whose it is, since an application's credentials do not say for whom they act."""
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
    """What the settings say about where tokens come from."""

    settings: config.Settings = field(compare=False)
    said: tuple[object, ...]
    app: apps.Application | None  # None: it is kept with a person's tokens, or a link needs none

    @classmethod
    def of(cls, settings: config.Settings) -> "_Login":
        app = None if settings.login in ("person", "link") else app_of(settings)
        return cls(settings, (settings.login, settings.token_store, *_subject(settings)), app)


def _subject(settings: config.Settings) -> tuple[str, str]:
    return (settings.subject_type, settings.subject_id)


def _configured(account: str, endpoints: session.ServiceEndpoints) -> _Login | None:
    """The login of the configuration as it is now, if that holds and means the same service."""
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
    """The application that the settings name.  Raises `ConfigError`."""
    if settings.app_file is not None:
        return apps.read(settings.app_file)
    if not settings.client_id or not settings.client_secret_file:
        raise errors.ConfigError(
            f"The account {settings.account!r} has no login: `cmsfs login` makes one, or app_file, "
            f"or client_id, client_secret_file and subject_id in {config.config_file()}."
        )
    return apps.Application(settings.client_id, secret(settings.client_secret_file))


def secret(path: Path) -> str:
    """The secret in a file.  Raises `ConfigError`."""
    try:
        found = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise errors.ConfigError(f"The secret in {path} cannot be read: {reason}.") from None
    if not found:
        raise errors.ConfigError(f"The file {path} holds no secret.")
    return found
