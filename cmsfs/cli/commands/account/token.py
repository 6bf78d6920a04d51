"""`cmsfs token`: derives tokens with narrower scopes from the account's token (token exchange)."""

import click
import trio

from cmsfs import config, errors, output
from cmsfs.auth import bearer, connect, grants
from cmsfs.cli.support import context
from cmsfs.client import remote_paths, session
from cmsfs.models.content import items
from cmsfs.models.enterprise import tokens


@click.group()
def token() -> None:
    """Create tokens for other programs."""


@token.command("downscope")
@click.argument("scope", nargs=-1, required=True)
@click.option(
    "--resource", metavar="REMOTE", help="Restrict it to this file, or this folder and everything below."
)
@click.option("--shared-link", metavar="URL", help="Restrict it to the item of this shared link.")
@output.json_option
@context.pass_context
def downscope(
    ctx: context.Context,
    scope: tuple[str, ...],
    *,
    resource: str | None,
    shared_link: str | None,
    as_json: bool,
) -> None:
    """Print a token restricted to SCOPE, for example item_download.

    It expires with the account's own access token, within about an hour.  Standard output contains only the
    token; anyone who has it can use it.
    """
    if resource is not None and shared_link is not None:
        raise click.UsageError("--resource and --shared-link are mutually exclusive.")

    async def work() -> tokens.Token:
        settings = ctx.settings()
        async with connect.open_access(settings) as way:
            url = None if resource is None else await _url(way, settings, resource)
            fetch = grants.downscoped(
                way.anonymous, way.fetch, " ".join(scope), resource=url, shared_link=shared_link
            )
            return await fetch()

    made = trio.run(work)
    if as_json:
        document = made.model_dump(mode="json", exclude_unset=True)
        output.document(document | {"access_token": made.access_token.get_secret_value()})
    else:
        output.say(made.access_token.get_secret_value())


async def _url(way: connect.ServiceAccess, settings: config.Settings, remote: str) -> str:
    """Return the API URL of a file or folder.  Raises `UserError`."""
    auth = bearer.BearerAuth(way.fetch)
    async with session.open_client(
        way.endpoints, auth=auth, transport=way.transport, ca_file=way.ca_file
    ) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
    if isinstance(found, items.WebLink):
        raise errors.UserError(f"{remote} is a web link; tokens are for files and folders.")
    kind = "files" if isinstance(found, items.File) else "folders"
    return f"{way.endpoints.base_url}/{kind}/{found.id}"
