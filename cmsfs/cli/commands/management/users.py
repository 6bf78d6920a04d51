"""`cmsfs users`: the users of the enterprise, for administrators."""

from typing import Any

import click
import pydantic
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, tables
from cmsfs.client import session
from cmsfs.models.content import items
from cmsfs.models.enterprise import users as models_users

COLUMNS = ("id", "name", "login", "role", "status", "space_used")


@click.group()
def users() -> None:
    """List, show and create users of the enterprise, and transfer their content."""


@users.command("list")
@click.argument("term", required=False)
@click.option(
    "--kind",
    type=click.Choice(["all", "managed", "external"]),
    default="all",
    show_default=True,
    help="Managed users, or external collaborators.",
)
@tables.limit_option
@tables.fields_option("id,enterprise.name")
@output.json_option
@context.pass_context
def list_(
    ctx: context.Context,
    term: str | None,
    *,
    kind: str,
    limit: int | None,
    fields: tuple[str, ...],
    as_json: bool,
) -> None:
    """List users; with TERM only those whose name or login starts with it.

    External users are found only by their full login.
    """

    async def work() -> list[models_users.User]:
        async with connect.open_backend(ctx.settings()) as client:
            entries = client.users.list(
                term=term, kind=kind, fields=tables.requested_fields(fields or COLUMNS)
            )
            return await tables.collected(entries, "user", limit=limit)

    tables.show_all(trio.run(work), COLUMNS, noun="such user", fields=fields, as_json=as_json)


@users.command("show")
@click.argument("user")
@tables.fields_option("id,enterprise.name")
@output.json_option
@context.pass_context
def show(ctx: context.Context, user: str, *, fields: tuple[str, ...], as_json: bool) -> None:
    """Show a user, given by an ID, a full login, or `me`."""

    async def work() -> models_users.User:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.users.get(await find(client, user), fields=tables.requested_fields(fields))

    tables.show(trio.run(work), fields=fields, as_json=as_json)


async def find(client: session.Client, user: str) -> str:
    """Return the id of a user given by id, login or `me`.  Raises `UserError` if there is none."""
    if user == "me" or (user.isascii() and user.isdigit()):
        return user
    async for found in client.users.list(term=user):
        if (found.login or "").casefold() == user.casefold():
            return found.id
    raise errors.UserError(f"No user has the login {user}.")


def _codes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> list[dict[str, str]] | None:
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE.", ctx, param)
    pairs = [value.split("=", 1) for value in values]
    return [{"name": name, "value": text} for name, text in pairs] or None


def _space(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if value == "unlimited":
        return -1
    units = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    number = value.rstrip("kMGTB")
    if not number.isascii() or not number.isdigit() or value[len(number) :] not in units:
        raise click.BadParameter("give a size such as 10GB, or unlimited.", ctx, param)
    return int(number) * units[value[len(number) :]]


@users.command("create")
@click.argument("name")
@click.option("--login", metavar="EMAIL", help="Login (email address); app users have none.")
@click.option("--role", type=click.Choice(["coadmin", "user"]))
@click.option(
    "--status", type=click.Choice(["active", "inactive", "cannot_delete_edit", "cannot_delete_edit_upload"])
)
@click.option("--language", metavar="CODE", help="For example en or de.")
@click.option("--timezone", metavar="NAME", help="For example Europe/Berlin.")
@click.option("--job-title", metavar="TEXT")
@click.option("--phone", metavar="TEXT")
@click.option("--address", metavar="TEXT")
@click.option("--space-amount", metavar="SIZE", callback=_space, help="10GB, or unlimited.")
@click.option("--tracking-code", "tracking_codes", metavar="NAME=VALUE", multiple=True, callback=_codes)
@click.option("--external-app-user-id", metavar="ID")
@click.option("--can-see-managed-users/--cannot-see-managed-users", default=None)
@click.option("--sync/--no-sync", "is_sync_enabled", default=None)
@click.option(
    "--external-collab-restricted/--external-collab-open", "is_external_collab_restricted", default=None
)
@click.option("--exempt-from-device-limits", "is_exempt_from_device_limits", flag_value=True, default=None)
@click.option(
    "--exempt-from-login-verification", "is_exempt_from_login_verification", flag_value=True, default=None
)
@click.option(
    "--app-user",
    "is_platform_access_only",
    flag_value=True,
    default=None,
    help="Create an app user, without a login.",
)
@tables.fields_option("id,enterprise.name")
@output.json_option
@context.pass_context
def create(
    ctx: context.Context, /, name: str, *, fields: tuple[str, ...], as_json: bool, **options: Any
) -> None:
    """Create a managed user called NAME."""
    given = {key: value for key, value in options.items() if value is not None}
    try:
        wish = models_users.NewUser.model_validate({"name": name} | given)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the user"
        raise errors.UserError(
            f"{where}: {first['msg'].removeprefix('Value error, ')}.", exit_code=2
        ) from None

    async def work() -> models_users.User:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.users.create(wish, fields=tables.requested_fields(fields))

    made = trio.run(work)
    if as_json or fields:
        tables.show(made, fields=fields, as_json=as_json)
    else:
        output.say(f"{made.name} has the id {made.id}.")


@users.command("transfer")
@click.argument("user")
@click.argument("to")
@output.json_option
@context.pass_context
def transfer(ctx: context.Context, user: str, to: str, *, as_json: bool) -> None:
    """Give everything that USER owns to the user TO, in a new folder in that user's root.

    Both are IDs or full logins.  Shared links and collaborations go with it; what is in the trash stays.
    """

    async def work() -> items.Folder:
        async with connect.open_backend(ctx.settings()) as client:
            return await client.users.transfer(await find(client, user), await find(client, to))

    made = trio.run(work)
    if as_json:
        tables.show(made, as_json=True)
    else:
        output.say(f'{to} has the folder "{made.name}" now, with everything that {user} owned.')
