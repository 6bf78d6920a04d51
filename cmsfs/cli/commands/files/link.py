"""`cmsfs link`: creates and changes web links.

It calls the service directly, so it works without a mounted drive, where a web link appears as a file
`NAME.url`.
"""

import click

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, daemonctl, path_argument
from cmsfs.client import remote_paths, session
from cmsfs.models.content import items, web_links

# The suffix of a web link's file on a drive.
SUFFIX = ".url"


@click.command()
@click.argument("url")
@click.argument("path", required=False, default="/", type=path_argument.PATH)
@click.option("--description", metavar="TEXT", help="Description, up to 256 characters.")
@click.option("--replace", is_flag=True, help="Replace the URL of an existing web link.")
@output.json_option
@context.pass_context
def link(
    ctx: context.Context, url: str, path: str, *, description: str | None, replace: bool, as_json: bool
) -> None:
    """Create a web link to URL at PATH: a folder, or the path of the new link.

    In a folder it is named after its URL.  (`cmsfs share` creates a shared link to a file or folder.)
    """
    if not web_links.is_address(url):
        raise errors.UserError(f"{url} is not a web URL; web links start with http:// or https://.")
    if description is not None and len(description) > web_links.MAX_DESCRIPTION:
        raise errors.UserError(f"A description has at most {web_links.MAX_DESCRIPTION} characters.")
    where, made = asking.run(_link, ctx, url, path, description, replace)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    if as_json:
        output.document({"id": made.id, "name": made.name, "url": made.url, "path": where})
    else:
        output.say(f"{where}: {made.url}")


async def _link(
    ctx: context.Context, url: str, wanted: str, description: str | None, replace: bool
) -> tuple[str, items.WebLink]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        paths = remote_paths.RemotePaths(client, settings)
        path = remote_paths.normal(wanted)
        there = await _find(paths, path)
        if isinstance(there, items.Folder):
            made = await client.web_links.create(url, there.id, description=description)
            return remote_paths.normal(f"{path}/{made.name}"), made
        if isinstance(there, items.WebLink):
            made = await _change(client, there, path, url, description, replace=replace)
            return path, made
        if there is not None:
            raise errors.UserError(f"{path} already exists and is not a web link.")
        if wanted.endswith("/"):
            raise errors.UserError(f"There is no folder {path} on the service.")
        folder, _, name = path.rpartition("/")
        name = name.removesuffix(SUFFIX) or name
        parent = await paths.get_folder(folder)
        made = await client.web_links.create(url, parent.id, name=name, description=description)
        return remote_paths.normal(f"{folder}/{made.name}"), made


async def _find(paths: remote_paths.RemotePaths, path: str) -> remote_paths.Found | None:
    """Find the item at a path, also with the suffix that a drive adds."""
    found = await paths.find(path)
    folder, _, name = path.rpartition("/")
    if found is None and name.endswith(SUFFIX):
        alike = await paths.find(f"{folder}/{name.removesuffix(SUFFIX)}")
        return alike if isinstance(alike, items.WebLink) else None
    return found


async def _change(
    client: session.Client,
    there: items.WebLink,
    path: str,
    url: str,
    description: str | None,
    *,
    replace: bool,
) -> items.WebLink:
    if not replace:
        raise errors.UserError(f"{path} is already a web link; --replace changes its URL.")
    return await client.web_links.update(there.id, url=url, description=description, etag=there.etag)
