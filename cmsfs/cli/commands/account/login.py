"""`cmsfs login`, `logout`: obtain and revoke an account's tokens.

A person consents in a browser (`auth.authorization_code`); a server uses a file from the service's console.
The account is written into the configuration file, tokens into the keyring or a file (`auth.token_store`).

Rule: nothing is written before the service has answered with who we are, and of a first login before the
person has said so, too.
"""

import functools
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pydantic
import trio

from cmsfs import config, errors, output
from cmsfs.auth import apps, authorization_code, connect, token_refresh
from cmsfs.auth import token_store as auth_token_store
from cmsfs.auth.endpoints import endpoints_of
from cmsfs.cli.commands.account import login_target, whoami
from cmsfs.cli.support import config_file, context, daemonctl, passwords
from cmsfs.client import session
from cmsfs.models.enterprise import tokens, users
from cmsfs.runtime import clock, threads

_file = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Way:
    """How to log in, from the command's options."""

    app: Path | None
    client_id: str | None
    client_secret_file: Path | None
    browser: bool
    port: int
    yes: bool
    scope: str


@click.command()
@click.argument("service", required=False)
@click.option(
    "--no-browser", is_flag=True, help="Print the URL, and read the redirect URL that the browser ends at."
)
@click.option("--client-id", metavar="ID", help="Client ID of the OAuth application.")
@click.option("--client-secret-file", type=_file, help="File with its client secret (default: prompt).")
@click.option("--app", type=_file, help="The application's JSON file, instead of these two.")
@click.option("--client-credentials", type=_file, help="For servers: an application's JSON file.")
@click.option("--jwt", type=_file, help="For servers: an application's JSON file with its private key.")
@click.option("--user", metavar="ID", help="For servers: the user to speak for (default: the file's).")
@click.option(
    "--ca-file", type=_file, help="Additional CA certificates (PEM) to trust, such as a private CA."
)
@click.option("--yes", is_flag=True, help="Do not ask to confirm the user who logged in (for scripts).")
@click.option("--admin", is_flag=True, help="Also ask for what the commands under Administration need.")
@click.option("--port", type=click.IntRange(1, 65535), help="Local port for the OAuth redirect.")
@click.option(
    "--token-store",
    type=click.Choice(["auto", "keyring", "file"]),
    default="auto",
    help="Where tokens are kept (auto: the session's keyring if there is one).",
)
@context.pass_context
def login(
    ctx: context.Context,
    service: str | None,
    *,
    no_browser: bool,
    client_id: str | None,
    client_secret_file: Path | None,
    app: Path | None,
    client_credentials: Path | None,
    jwt: Path | None,
    user: str | None,
    ca_file: Path | None,
    admin: bool,
    port: int | None,
    yes: bool,
    token_store: str,
) -> None:
    """Log in to SERVICE and save it as the account.

    SERVICE is the URL of a `cmsfs serve`, a profile (embedded, server, specification, box), or an account of
    the configuration; without it the account logs in again.  `cmsfs --account NAME login ...` creates an
    account of that name.
    """
    if client_credentials and jwt:
        raise click.UsageError("--client-credentials and --jwt are mutually exclusive.")
    account, values = login_target.find(ctx, service)
    if ca_file is not None:
        values["ca_file"] = str(ca_file.expanduser().absolute())
    settings = _settings(ctx, account, values)
    if config.profile(settings).embedded:
        config_file.update(account, _only(values))
        output.say("The embedded service needs no login; `cmsfs demo` sets it up and mounts it.")
        return
    if (file := client_credentials or jwt) is not None:
        values |= _as_server(settings, file, user, kind="jwt" if jwt else "client_credentials")
        settings = _settings(ctx, account, values)
        # With the new credentials, not with those of an earlier login, which the configuration still has.
        me = trio.run(functools.partial(whoami.ask, settings, as_given=True))
    else:
        scope = "" if admin else connect.CHANGING
        way = _Way(app, client_id, client_secret_file, not no_browser, port or 0, yes, scope)
        chosen = _application(way, settings)
        values |= {"login": "person", "token_store": token_store}
        settings = _settings(ctx, account, values)
        before = _known(config.load(account), settings)
        if before is None and not _can_ask(way):
            raise errors.UserError(
                "The first login asks to confirm the user, and there is no terminal; --yes skips the "
                "question.",
                exit_code=2,
            )
        me, keep = trio.run(_as_person, settings, chosen, way, before)
        if token_store == "auto":
            # Write down the store that was chosen now: a later session might choose another one.
            values["token_store"] = (
                "keyring" if isinstance(keep, auth_token_store.KeyringTokenStore) else "file"
            )
        output.note(f"Tokens are stored in {keep.title}.")
    for file in filter(None, (client_credentials, jwt, app, client_secret_file)):
        passwords.warn_if_readable(file)
    mounted_from = whoami.host(config.load(account))
    path = config_file.update(account, _only(values))
    output.say(f"Logged in to {whoami.host(settings)} as {whoami.named(me)}, account {account} in {path}.")
    if mounted_from != whoami.host(settings) and (daemon := daemonctl.find_account(account)):
        output.note(
            f"The drive at {daemon.mountpoint} is still that of {mounted_from}; `cmsfs umount` and then "
            f"`cmsfs mount` show {whoami.host(settings)}."
        )


def _settings(ctx: context.Context, account: str, values: Mapping[str, Any]) -> config.Settings:
    """Return the settings as they will be with these values."""
    # Values that are not given are reset to the defaults, so that nothing of an old login remains.
    absent = {key: config.Settings.model_fields[key].default for key in login_target.KEYS}
    return config.load(account).model_copy(update=absent | config.checked(values))


def _only(values: Mapping[str, Any]) -> dict[str, config_file.Value]:
    return {key: values.get(key) for key in login_target.KEYS}


def _as_server(settings: config.Settings, file: Path, user: str | None, *, kind: str) -> dict[str, Any]:
    app = apps.read(file)
    who = user or app.user_id
    subject = ("user", who) if who else ("enterprise", app.enterprise_id)
    if not subject[1]:
        raise errors.UserError(f"{file} names no user or enterprise; choose one with --user ID.", exit_code=2)
    return {
        "login": kind,
        "app_file": str(file.expanduser().absolute()),
        "subject_type": subject[0],
        "subject_id": subject[1],
    }


def _application(way: _Way, settings: config.Settings) -> apps.Application:
    """Return the application to log in with: given by options, stored with the account, or typed by the
    user."""
    if way.app is not None:
        return apps.read(way.app)
    kept = None
    if way.client_id is None:
        try:
            kept = auth_token_store.open_token_store(settings).read()
        except errors.CmsfsError:
            pass  # the stored login is about to be replaced
    if kept is not None:
        return apps.Application(kept.client_id, kept.client_secret)
    if way.client_id is None and not sys.stdin.isatty():
        raise errors.UserError(
            "No OAuth application given; use --app FILE, or --client-id and --client-secret-file.",
            exit_code=2,
        )
    client_id = way.client_id or click.prompt("Client ID of the application", err=True)
    if way.client_secret_file is not None:
        return apps.Application(client_id, connect.secret(way.client_secret_file))
    if not sys.stdin.isatty():
        return apps.Application(client_id, "")
    return apps.Application(client_id, click.prompt("Its secret", hide_input=True, err=True, default=""))


def _known(before: config.Settings, settings: config.Settings) -> str | None:
    """Return the user id of the account's current login at this service; None if this is the first."""
    if config.profile(before).base_url != config.profile(settings).base_url:
        return None
    try:
        kept = auth_token_store.open_token_store(before).read()
    except errors.CmsfsError:
        return None
    return kept.user_id if kept is not None else None


def _can_ask(way: _Way) -> bool:
    return way.yes or sys.stdin.isatty()


async def _is_right(way: _Way, settings: config.Settings, me: users.User, before: str | None) -> bool:
    """Whether this is the right user: the account's user, or a new one that the user confirms."""
    if way.yes or me.id == before:
        return True
    if not _can_ask(way):
        return False
    question = f"Logged in at {whoami.host(settings)} as {whoami.named(me)}, user {me.id}. Is this you?"
    return await threads.run_sync(output.confirm, question)


async def _as_person(
    settings: config.Settings, app: apps.Application, way: _Way, before: str | None
) -> tuple[users.User, auth_token_store.TokenStore]:
    """Let the user consent, and store the tokens; return the user and the token store.

    `before`: the user of the account's current login."""
    endpoints = endpoints_of(settings)
    async with session.open_client(endpoints, ca_file=settings.ca_file) as client:
        token = await _consented(settings, app, way, client)
        if token.refresh_token is None:
            raise errors.UserError(
                "The service issued no refresh token, so the login would expire within an hour."
            )
        me = await connect.user_of(settings, token)
        if not await _is_right(way, settings, me, before):
            with suppress(errors.RemoteError):
                await client.tokens.revoke(
                    app.client_id, pydantic.SecretStr(app.client_secret), token.refresh_token
                )
            raise errors.UserError(
                f"{whoami.named(me)} was not confirmed, so no tokens were saved. Someone else may have "
                "answered in the browser; log in again.",
                exit_code=6,
            )
        keep = await token_refresh.blocking(lambda: auth_token_store.open_token_store(settings))
        made = auth_token_store.StoredLogin(
            client_id=app.client_id,
            client_secret=app.client_secret,
            refresh_token=token.refresh_token.get_secret_value(),
            access_token=token.access_token.get_secret_value(),
            expires_at=clock.time() + token.expires_in,
            user_id=me.id,
        )
        await token_refresh.renew(keep, made, config.Paths(settings.account).token_lock)
    return me, keep


async def _consented(
    settings: config.Settings, app: apps.Application, way: _Way, client: session.Client
) -> tokens.Token:
    authorize_url = config.profile(settings).authorize_url
    if not way.browser:
        with authorization_code.reserved_port(way.port) as holder:
            where = f"http://127.0.0.1:{holder.getsockname()[1]}{authorization_code.PATH}"
            asked = authorization_code.Consent(authorize_url, app.client_id, where, way.scope)
            output.note(
                f"Open this address in a browser:\n\n  {asked.url}\n\nIt ends at a page that cannot be "
                "reached; copy its URL from the browser right away: it expires in 30 seconds."
            )
            pasted = await threads.run_sync(lambda: click.prompt("That address", err=True))
            return await asked.redeem(client, asked.code_pasted(pasted), app.client_secret)
    async with authorization_code.listening(way.port) as listener:
        asked = authorization_code.Consent(authorize_url, app.client_id, listener.redirect_uri, way.scope)
        opened = await threads.run_sync(webbrowser.open, listener.start_url)
        said = "Waiting for the browser" if opened else "Could not open a browser"
        output.note(f"{said}; the address is\n\n  {listener.start_url}\n")
        return await asked.redeem(client, await listener.code(asked), app.client_secret)


@click.command()
@click.option("--forget", is_flag=True, help="Delete the local tokens even if they cannot be revoked.")
@context.pass_context
def logout(ctx: context.Context, *, forget: bool) -> None:
    """Log out: revoke the account's tokens and delete them locally.

    The configuration and the drive's local state are kept; of a shared link, not its address and password.
    """
    settings = ctx.settings()
    if settings.is_link and settings.link_file is not None:
        settings.link_file.expanduser().unlink(missing_ok=True)
        output.say("The shared link and its password are forgotten.")
        return
    if settings.login != "person":
        raise errors.UserError(
            f"The account {settings.account!r} uses application credentials, so there is no login to end."
        )
    keep = auth_token_store.open_token_store(settings)
    ended = trio.run(_log_out, settings, keep, forget)
    output.say("Logged out." if ended else "Not logged in.")
    if daemonctl.find_account(settings.account):
        output.note("The drive is still mounted with its local contents; `cmsfs umount` unmounts it.")


async def _log_out(settings: config.Settings, keep: auth_token_store.TokenStore, forget: bool) -> bool:
    async with token_refresh.locked(config.Paths(settings.account).token_lock):
        try:
            login = await token_refresh.blocking(keep.read)
        except errors.ConfigError:
            login = None  # tokens that cannot be read cannot be revoked either
        if login is not None:
            await _revoke(settings, login, forget=forget)
        await token_refresh.blocking(keep.clear)
    return login is not None


async def _revoke(settings: config.Settings, login: auth_token_store.StoredLogin, *, forget: bool) -> None:
    endpoints = endpoints_of(settings)
    async with session.open_client(endpoints, ca_file=settings.ca_file) as client:
        try:
            await client.tokens.revoke(
                login.client_id,
                pydantic.SecretStr(login.client_secret),
                pydantic.SecretStr(login.refresh_token),
            )
        except errors.OAuthError:
            pass  # the service does not know them any more
        except errors.RemoteError:
            if not forget:
                raise errors.UserError(
                    "The service cannot be reached to revoke the tokens; `cmsfs logout --forget` only "
                    "deletes them locally.",
                    exit_code=5,
                ) from None
