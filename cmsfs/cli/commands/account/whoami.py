"""`cmsfs whoami`: who the account is at its service."""

from urllib.parse import urlsplit

import click

from cmsfs import config, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context
from cmsfs.models.enterprise import users


async def ask(settings: config.Settings, *, as_given: bool = False) -> users.User:
    """Return the account's user, with exactly these settings if `as_given`, else also with a newer login."""
    async with connect.open_backend(settings, as_given=as_given) as client:
        return await client.users.me()


@click.command()
@output.json_option
@context.pass_context
def whoami(ctx: context.Context, *, as_json: bool) -> None:
    """Show the account's user."""
    settings = ctx.settings()
    me = asking.run(ask, settings)
    if as_json:
        found = {"id": me.id, "name": me.name, "login": me.login}
        output.document({"account": settings.account, "service": host(settings), **found})
    else:
        output.say(f"{named(me)}, user {me.id} at {host(settings)}, account {settings.account}")


def named(me: users.User) -> str:
    """Return a user's display name."""
    return f"{me.name} <{me.login}>" if me.login else me.name or f"user {me.id}"


def host(settings: config.Settings) -> str:
    """Return the display name of an account's service."""
    profile = config.profile(settings)
    return profile.title if profile.embedded else urlsplit(profile.base_url).netloc
