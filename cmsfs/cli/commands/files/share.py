"""`cmsfs share` and `unshare`: the shared link of an item.

Straight through the client, so it works without a drive, too.

Rule: a link that there is already is told, its terms untouched; asking for one never opens more than the
service's default does.
"""

import click

from cmsfs import output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, path_argument
from cmsfs.client import remote_paths
from cmsfs.models.content import items


@click.command()
@click.argument("remote", type=path_argument.PATH)
@output.json_option
@context.pass_context
def share(ctx: context.Context, remote: str, *, as_json: bool) -> None:
    """Print the shared link of REMOTE, for example /Documents/a.txt; create one if necessary.

    New links have the service's default access level.
    """
    shared = asking.run(_share, ctx, remote)
    if as_json:
        output.document(shared.model_dump(mode="json", include={"url", "access", "download_url"}))
    else:
        output.say(str(shared.url))


async def _share(ctx: context.Context, remote: str) -> items.SharedLink:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
        link = await client.shared_links.get(found.type, found.id)
        if link is not None and link.url:
            return link
        return await client.shared_links.share(found.type, found.id)
