"""`cmsfs favorites`: the favorites of the account.

They call the service directly, so they work without a mounted drive.
"""

import click

from cmsfs import output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, daemonctl, path_argument, tables
from cmsfs.client import remote_paths
from cmsfs.models.content import items

COLUMNS = ("type", "id", "path")

_remotes = click.argument("remotes", nargs=-1, required=True, metavar="REMOTE...", type=path_argument.PATH)


@click.group()
def favorites() -> None:
    """List, add and remove favorites.

    On the drive a favorite has the attribute `user.cms.favorite`, and an emblem in the file manager.
    """


@favorites.command("list")
@output.json_option
@context.pass_context
def list_(ctx: context.Context, *, as_json: bool) -> None:
    """List favorites, the latest first."""
    found = asking.run(_list, ctx)
    if as_json:
        output.document([dict(zip(COLUMNS, one, strict=True)) for one in found])
        return
    if not found:
        output.say(f"There are no favorites; `{output.command()} favorites add` adds files and folders.")
    output.table([[path] for _, _, path in found])


@favorites.command("add")
@_remotes
@context.pass_context
def add(ctx: context.Context, remotes: tuple[str, ...]) -> None:
    """Make REMOTE, for example /Documents/a.txt, a favorite."""
    _set(ctx, remotes, is_one=True)


@favorites.command("remove")
@_remotes
@context.pass_context
def remove(ctx: context.Context, remotes: tuple[str, ...]) -> None:
    """Have REMOTE among the favorites no more; the item itself stays as it is."""
    _set(ctx, remotes, is_one=False)


def _set(ctx: context.Context, remotes: tuple[str, ...], *, is_one: bool) -> None:
    asking.run(_change, ctx, remotes, is_one)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    for remote in remotes:
        path = remote_paths.normal(remote)
        output.say(f"{path} is a favorite." if is_one else f"{path} is not a favorite.")


async def _change(ctx: context.Context, remotes: tuple[str, ...], is_one: bool) -> None:
    async with connect.open_backend(ctx.settings()) as client:
        paths = remote_paths.RemotePaths(client, ctx.settings())
        for remote in remotes:
            found = await paths.get(remote)
            await client.favorites.set(found.type, found.id, is_one=is_one)


async def _list(ctx: context.Context) -> list[tuple[str, str, str]]:
    async with connect.open_backend(ctx.settings()) as client:
        entries = await client.favorites.list(fields=["name", "path_collection"])
        found = await tables.collected(entries, "favorite", limit=None)
        return [(one.type, one.id, _path(one)) for one in found]


def _path(item: items.Item) -> str:
    above = item.path_collection.entries if item.path_collection is not None else []
    return "/" + "/".join(one.name or one.id for one in (*above[1:], item))
