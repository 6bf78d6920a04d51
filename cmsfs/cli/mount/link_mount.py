"""`cmsfs mount LINK`: finds what a shared link shows, and configures an account of its own for it.

The account's name is made of the link, so that the same link is the same drive with its local state.  The
address and the password are kept in a file of that state (`auth.link_file`); in the configuration is only
where the service is and where the drive is mounted.

Rule: the password comes from a file or is typed; it is never an argument.
"""

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
import pydantic
import trio

from cmsfs import config, errors, mounts, output
from cmsfs.auth import grants, link_file
from cmsfs.cli.support import config_file, passwords
from cmsfs.client import session
from cmsfs.models.enterprise import tokens

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TRIES = 3

_LINK = re.compile(r"/s/([A-Za-z0-9_-]{1,200})/?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """A shared link's address, taken apart."""

    url: str
    service: str  # https://HOST

    @property
    def account(self) -> str:
        """The account that the link's drive has."""
        return f"link-{hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    @property
    def file(self) -> Path:
        """Where the link is kept."""
        return config.Paths(self.account).state / "link"


def parse(given: str) -> LinkAddress:
    """Raises `UserError` for an address that is none of a shared link, or would go in the clear."""
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


def configured(url: str, password_file: str | None, mountpoint: Path | None) -> str:
    """The link's account, which is made or renewed.

    Raises `UserError` if the link shows nothing without an account, or has another password.
    """
    link = parse(url)
    password = None if password_file is None else pydantic.SecretStr(passwords.read(password_file))
    ends = session.ServiceEndpoints.of_server(link.service)
    where = {
        "profile": "server",
        "base_url": ends.base_url,
        "upload_url": ends.upload_url,
        "auth_url": ends.auth_url,
        "login": "link",
        "link_file": str(link.file),
    }
    before = config.load(link.account)
    if password is None and link.file.exists():
        password = link_file.read(link.file).password
    try:
        token, password = _visit(link, ends, before.ca_file, password)
    except errors.Offline:
        if not before.is_link:
            raise
        return link.account  # it was mounted before: the drive shows what it knows
    shown, can_change = _shown(token)
    access = link_file.LinkAccess(
        url=pydantic.SecretStr(link.url),
        password=password,
        type=shown["type"],
        id=shown["id"],
        name=shown["name"],
    )
    link_file.keep(link.file, access)
    place = mountpoint or (before.mountpoint if before.is_link else free_place(access.name))
    config_file.update(
        link.account,
        {
            **where,
            "read_only": None if can_change else True,
            "mountpoint": str(place.expanduser().absolute()),
        },
    )
    return link.account


def _visit(
    link: LinkAddress,
    ends: session.ServiceEndpoints,
    ca_file: Path | None,
    password: pydantic.SecretStr | None,
) -> tuple[tokens.Token, pydantic.SecretStr | None]:
    """A token for the link, and the password that gave it, which is asked for if there is somebody to ask."""

    async def ask(secret: pydantic.SecretStr | None) -> tokens.Token:
        async with session.open_client(ends, ca_file=ca_file) as client:
            return await grants.visit(client, link.url, secret)

    for _ in range(_TRIES):
        try:
            return trio.run(ask, password), password
        except errors.OAuthError as error:
            if error.error != tokens.LINK_PASSWORD:
                raise _refusal(link, error) from None
            if not sys.stdin.isatty():
                break
        if password is not None:
            output.note("This is not the password of the link.")
        typed = click.prompt("The link's password", hide_input=True, err=True)
        password = pydantic.SecretStr(typed)
    said = "The link has a password" if password is None else "This is not the password of the link"
    raise errors.UserError(
        f"{said}; --password-file names a file that has it in its first line.", exit_code=6
    )


def _refusal(link: LinkAddress, error: errors.OAuthError) -> errors.UserError:
    host = urlsplit(link.service).netloc
    if error.error == "invalid_grant":
        said = (
            "The link shows no file or folder to somebody without an account: it has ended, or is for a few."
        )
    elif error.error == "rate_limit_exceeded":
        said = "Too many wrong passwords were named for the link; try again later."
    else:
        said = f"{host} shows what a link leads to only to those who have an account there."
    return errors.UserError(said, exit_code=6)


def _shown(token: tokens.Token) -> tuple[dict[str, str], bool]:
    """The item that a token is bound to, and whether it may be changed.  Raises `ProtocolError`."""
    for one in token.restricted_to or ():
        if one.object is not None and one.object.get("type") in ("file", "folder"):
            names = {restriction.scope for restriction in token.restricted_to or ()}
            return one.object, "item_upload" in names
    raise errors.ProtocolError("the answer to a shared link names no file or folder")


def free_place(name: str) -> Path:
    """A folder of the home, called as the item, that is not there yet.

    Whoever named the item is somebody else: a name that begins with a dot would be one of programs.
    """
    stem = re.sub(r"[/\x00-\x1f\x7f]", "_", name).strip(". ")[:60].strip() or "shared link"
    for number in range(1, 1000):
        place = Path.home() / (stem if number == 1 else f"{stem} ({number})")
        if not os.path.lexists(place):
            return place
    raise errors.UserError("Name a folder to mount the link on.", exit_code=mounts.BAD_MOUNTPOINT)
