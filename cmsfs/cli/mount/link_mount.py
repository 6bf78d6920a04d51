"""`cmsfs mount LINK`: resolves a shared link, and configures an account of its own for it.

The account's name is derived from the link, so that the same link is the same drive with its local state.
URL and password are stored in a file of that state (`auth.link_file`); the configuration has only the service
and the mountpoint.

Rule: the password is read from a file or typed; it is never an argument.
"""

import hashlib
import os
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import click
import pydantic
import trio

from cmsfs import config, errors, mounts, output
from cmsfs.auth import connect, grants, link_file
from cmsfs.auth.endpoints import endpoints_of
from cmsfs.cli.support import config_file, passwords
from cmsfs.client import session
from cmsfs.client.content.items import AnyItem
from cmsfs.models.content import items
from cmsfs.models.enterprise import tokens

Found = TypeVar("Found")

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TRIES = 3

_LINK = re.compile(r"/s/([A-Za-z0-9_-]{1,200})/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """A parsed shared link URL."""

    url: str
    service: str  # https://HOST

    @property
    def account(self) -> str:
        """The name of the account for the link's drive."""
        return f"link-{hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    @property
    def file(self) -> Path:
        """The file that stores the link."""
        return config.Paths(self.account).state / "link"


def parse(given: str) -> LinkAddress:
    """Parse a shared link.  Raises `UserError` for any other URL, and for one without TLS."""
    try:
        parts = urlsplit(given)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        whole = False
    found = _LINK.fullmatch(parts.path) if whole else None
    if found is None or "@" in parts.netloc:
        raise errors.UserError(
            "This is no address of a shared link, such as https://files.example.com/s/WORD.", exit_code=2
        )
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise errors.UserError(
            "The link does not use TLS, so that others could intercept it; use https://.", exit_code=2
        )
    service = f"{parts.scheme}://{parts.netloc}"
    return LinkAddress(f"{service}/s/{found[1]}", service)


def configured(account: str | None, url: str, password_file: str | None, mountpoint: Path | None) -> str:
    """Create or update the link's account; return its name.

    A link that requires an account uses `account`, or one that is logged in to the service.  Raises
    `UserError` if the link shows nothing, or has another password.
    """
    link = parse(url)
    if mountpoint is not None and not mountpoint.is_dir():
        # Before it is remembered as the place of this link.
        said = "is not a folder" if os.path.lexists(mountpoint) else "does not exist"
        raise errors.UserError(f"The mountpoint {mountpoint} {said}.", exit_code=mounts.BAD_MOUNTPOINT)
    password = None if password_file is None else pydantic.SecretStr(passwords.read(password_file))
    before = config.load(link.account)
    if password is None and link.file.exists():
        password = link_file.read(link.file).password
    try:
        found = _find(link, account, before.ca_file, password)
    except errors.Offline:
        if not before.is_link:
            raise
        return link.account  # it was mounted before, so the drive can start offline
    link_file.keep(link.file, found.access)
    place = mountpoint or (before.mountpoint if before.is_link else free_place(found.access.name))
    values = {
        **found.service,
        "login": "link",
        "link_file": str(link.file),
        "read_only": None if found.can_change else True,
        "mountpoint": str(place.expanduser().absolute()),
    }
    config_file.update(link.account, values)
    return link.account


@dataclass(frozen=True, slots=True)
class _FoundLink:
    """A resolved link: its item, with which account, and at which service."""

    access: link_file.LinkAccess
    service: dict[str, str | None]
    can_change: bool


def _find(
    link: LinkAddress, account: str | None, ca_file: Path | None, password: pydantic.SecretStr | None
) -> _FoundLink:
    if account is None:
        try:
            return _by_itself(link, ca_file, password)
        except (errors.Offline, errors.RemoteTimeout):
            raise
        except errors.RemoteError as error:
            # Services that do not support such tokens reject the request in different ways.
            refused = error.error if isinstance(error, errors.OAuthError) else ""
            account = _account_at(link)
            if account is None or refused == "rate_limit_exceeded":
                raise _refusal(link, refused) from None
    return _by_account(link, account, password)


def _by_itself(link: LinkAddress, ca_file: Path | None, password: pydantic.SecretStr | None) -> _FoundLink:
    """Resolve the link without an account.  Raises `OAuthError`."""
    ends = session.ServiceEndpoints.of_server(link.service)

    async def ask(secret: pydantic.SecretStr | None) -> tokens.Token | None:
        async with session.open_client(ends, ca_file=ca_file) as client:
            try:
                return await grants.visit(client, link.url, secret)
            except errors.OAuthError as error:
                if error.error != tokens.LINK_PASSWORD:
                    raise
                return None

    token, password = _with_password(ask, password)
    shown, can_change = _shown(token)
    access = link_file.LinkAccess(
        url=pydantic.SecretStr(link.url),
        password=password,
        type=shown["type"],
        id=shown["id"],
        name=shown["name"],
    )
    service = {"profile": "server", "base_url": ends.base_url, "upload_url": ends.upload_url}
    return _FoundLink(access, {**service, "auth_url": ends.auth_url}, can_change)


def _by_account(link: LinkAddress, account: str, password: pydantic.SecretStr | None) -> _FoundLink:
    """Resolve the link with a logged-in account."""
    settings = config.load(account)

    async def ask(secret: pydantic.SecretStr | None) -> AnyItem | None:
        async with connect.open_backend(settings) as client:
            try:
                named = None if secret is None else secret.get_secret_value()
                return await client.shared_links.find(link.url, password=named)
            except errors.Forbidden as error:
                if error.code != tokens.LINK_PASSWORD:
                    raise
                return None
            except errors.NotFound:
                said = f"The link shows nothing to the account {account!r}: it has ended, or is for others."
                raise errors.UserError(said, exit_code=6) from None

    item, password = _with_password(ask, password)
    if not isinstance(item, items.File | items.Folder):
        raise errors.UserError("The link shows a web link, which cannot be mounted.")
    access = link_file.LinkAccess(
        url=pydantic.SecretStr(link.url),
        password=password,
        type=item.type,
        id=item.id,
        name=item.name or "",
        account=account,
    )
    terms = item.shared_link.permissions if item.shared_link is not None else None
    can_change = item.type == "file" and terms is not None and terms.can_edit is True
    kept = ("profile", "base_url", "upload_url", "auth_url", "ca_file")
    service = {key: str(value) if (value := getattr(settings, key)) else None for key in kept}
    return _FoundLink(access, service, can_change)


def _account_at(link: LinkAddress) -> str | None:
    """Return a logged-in account at the link's service, if there is one."""
    host = urlsplit(link.service).netloc
    for name in dict.fromkeys([config.default_account(), *config.accounts()]):
        settings = config.load(name)
        if settings.is_link or not settings.names_service or config.profile(settings).embedded:
            continue
        pages = urlsplit(config.profile(settings).item_page or "").netloc
        own = {urlsplit(one).netloc for one in endpoints_of(settings).addresses}
        if host in own or (pages and (host == pages or host.endswith("." + pages.removeprefix("app.")))):
            return name
    return None


def _with_password(
    ask: Callable[[pydantic.SecretStr | None], Awaitable[Found | None]], password: pydantic.SecretStr | None
) -> tuple[Found, pydantic.SecretStr | None]:
    """Return the result of `ask`, and the password that worked; prompt for it on a terminal."""
    for _ in range(_TRIES):
        if (found := trio.run(ask, password)) is not None:
            return found, password
        if not sys.stdin.isatty():
            break
        if password is not None:
            output.note("This is not the password of the link.")
        password = pydantic.SecretStr(click.prompt("The link's password", hide_input=True, err=True))
    said = "The link has a password" if password is None else "This is not the password of the link"
    raise errors.UserError(
        f"{said}; --password-file names a file that has it in its first line.", exit_code=6
    )


def _refusal(link: LinkAddress, code: str) -> errors.UserError:
    host = urlsplit(link.service).netloc
    if code == "invalid_grant":
        said = (
            "The link shows no file or folder to somebody without an account: it has ended, or is for a few."
        )
    elif code == "rate_limit_exceeded":
        said = "Too many wrong passwords were named for the link; try again later."
    else:
        said = (
            f"{host} shows what a link leads to only to those who have an account there: `cmsfs login` first."
        )
    return errors.UserError(said, exit_code=6)


def _shown(token: tokens.Token) -> tuple[dict[str, str], bool]:
    """Return the item that a token is bound to, and whether the token permits changes.  Raises
    `ProtocolError`."""
    for one in token.restricted_to or ():
        if one.object is not None and one.object.get("type") in ("file", "folder"):
            names = {restriction.scope for restriction in token.restricted_to or ()}
            return one.object, "item_upload" in names
    raise errors.ProtocolError("the answer to a shared link names no file or folder")


def free_place(name: str) -> Path:
    """Return a path in the home directory named after the item that does not exist yet.

    Somebody else chose the item's name: one that begins with a dot could be a program's configuration.
    """
    stem = re.sub(r"[/\x00-\x1f\x7f]", "_", name).strip(". ")[:60].strip() or "shared link"
    for number in range(1, 1000):
        place = Path.home() / (stem if number == 1 else f"{stem} ({number})")
        if not os.path.lexists(place):
            return place
    raise errors.UserError("Name a folder to mount the link on.", exit_code=mounts.BAD_MOUNTPOINT)
