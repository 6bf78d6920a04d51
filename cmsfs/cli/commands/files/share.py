"""`cmsfs share`: creates, changes and removes the shared link of an item.

It calls the service directly, so it works without a mounted drive.

Rule: only the given terms of an existing link change; a new link never permits more than the service's
default.
"""

from datetime import UTC, timedelta
from typing import Literal

import click

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, durations, passwords, path_argument
from cmsfs.client import remote_paths
from cmsfs.client.session import Client
from cmsfs.models.content import items
from cmsfs.runtime import clock

# The option's words for access levels, and the service's.
ACCESS: dict[str, Literal["open", "company", "collaborators"]] = {
    "open": "open",
    "company": "company",
    "people": "collaborators",
}


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.option(
    "--access",
    type=click.Choice(list(ACCESS)),
    help="Who can use the link: anyone (open), the enterprise (company), its collaborators (people).",
)
@click.option(
    "--password-file",
    type=passwords.FILE,
    help="Require the password in this file; - reads it from standard input.",
)
@click.option("--no-password", is_flag=True, help="Require no password any more.")
@click.option("--expires", type=durations.Duration(), help="End the link after this time, for example 14d.")
@click.option("--no-expiry", is_flag=True, help="Let the link last until it is removed.")
@click.option("--download/--no-download", default=None, help="Allow downloads, or previews only.")
@click.option("--edit/--no-edit", default=None, help="Of a file: let who has the link change it, or not.")
@click.option("--remove", is_flag=True, help="Remove the link; a later one has another URL.")
@output.json_option
@context.pass_context
def share(
    ctx: context.Context,
    remote: str,
    *,
    access: str | None,
    password_file: str | None,
    no_password: bool,
    expires: float | None,
    no_expiry: bool,
    download: bool | None,
    edit: bool | None,
    remove: bool,
    as_json: bool,
) -> None:
    """Print the shared link of REMOTE, for example /Documents/a.txt; create one if necessary.

    New links have the service's default access level.  Options change the terms of an existing link, too;
    what is not given stays as it is.
    """
    if password_file is not None and no_password:
        raise click.UsageError("--password-file and --no-password are mutually exclusive.")
    if expires is not None and no_expiry:
        raise click.UsageError("--expires and --no-expiry are mutually exclusive.")
    wish: dict[str, object] = {}
    if access is not None:
        wish["access"] = ACCESS[access]
    if password_file is not None or no_password:
        wish["password"] = None if password_file is None else passwords.read(password_file)
    if expires is not None or no_expiry:
        wish["unshared_at"] = (
            None if expires is None else clock.datetime_now(UTC) + timedelta(seconds=expires)
        )
    if download is not None or edit is not None:
        allowed = {"can_download": download, "can_edit": edit}
        wish["permissions"] = {name: value for name, value in allowed.items() if value is not None}
    if remove and wish:
        raise click.UsageError("--remove takes no terms.")
    terms = items.NewSharedLink.model_validate(wish) if wish else None
    link = asking.run(_unshare if remove else share_link, ctx, remote, terms)
    if as_json:
        output.document(None if link is None else link.model_dump(mode="json", exclude_none=True))
    elif link is None:
        output.say(f"{remote_paths.normal(remote)} has no shared link.")
    else:
        output.say(str(link.url))


async def share_link(
    ctx: context.Context, remote: str, terms: items.NewSharedLink | None
) -> items.SharedLink | None:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        found = await _item(client, ctx, remote)
        link = await client.shared_links.get(found.type, found.id)
        if link is not None and link.url and terms is None:
            return link
        try:
            return await client.shared_links.share(found.type, found.id, terms)
        except errors.Forbidden as error:
            raise errors.UserError(
                f"You may not share {remote_paths.normal(remote)} with these terms: {error}"
            ) from error


async def _unshare(ctx: context.Context, remote: str, terms: None) -> None:
    async with connect.open_backend(ctx.settings()) as client:
        found = await _item(client, ctx, remote)
        await client.shared_links.unshare(found.type, found.id)


async def _item(client: Client, ctx: context.Context, remote: str) -> remote_paths.Found:
    found = await remote_paths.RemotePaths(client, ctx.settings()).get(remote)
    if found.id == remote_paths.ROOT_ID:
        raise errors.UserError("The whole drive cannot be shared by a link; share a file or folder of it.")
    return found
