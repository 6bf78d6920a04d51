"""`cmsfs get` and `put`: download and upload files without a mounted drive.

Straight through the client, of the embedded service as of one on the network.

Rule: `put` makes a new version of the version it saw, never of a later one; `get` never replaces a
local file unasked.
"""

import sys
from pathlib import Path

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, daemonctl, path_argument, progress, transfers
from cmsfs.client import remote_paths, session
from cmsfs.client.transport import multipart
from cmsfs.models import base
from cmsfs.models.content import items, uploads


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.argument("local", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite an existing local file.")
@output.json_option
@context.pass_context
def get(ctx: context.Context, remote: str, local: Path | None, *, force: bool, as_json: bool) -> None:
    """Download the file REMOTE, for example /Documents/a.txt, to LOCAL ("-" for standard output)."""
    if str(local) == "-" and as_json:
        raise click.UsageError("--json and the file cannot both be written to standard output.")
    item, target = trio.run(_get, ctx, remote, local, force)
    if as_json:
        output.document(remote_paths.as_json(item) | {"local": str(target)})
    elif target:
        output.say(f"{target}: {output.size(int(item.size or 0))}")


async def _get(
    ctx: context.Context, remote: str, local: Path | None, force: bool
) -> tuple[items.File, Path | None]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        item = await remote_paths.RemotePaths(client, settings).get(remote)
        if isinstance(item, items.WebLink):
            raise errors.UserError(f"{remote_paths.normal(remote)} is a web link to {item.url}.")
        if not isinstance(item, items.File):
            raise errors.UserError(f"{remote_paths.normal(remote)} is a folder; get takes one file.")
        target = _target(item.name or "download", local, force=force)
        with progress.transfer(item.name or "", int(item.size or 0)) as bar:
            if target is None:
                await transfers.write(client, item, sys.stdout.buffer, progress=bar)
                sys.stdout.buffer.flush()
            else:
                await transfers.save(client, item, target, force=force, progress=bar)
        return item, target


def _target(name: str, local: Path | None, *, force: bool) -> Path | None:
    """Where a download goes; None is standard output.  Raises `UserError`."""
    if local is not None and str(local) == "-":
        return None
    target = local or Path()
    if target.is_dir():
        target /= name.replace("/", "_")
    if not target.parent.is_dir():
        raise errors.UserError(f"There is no folder {target.parent}.")
    if target.exists() and not force:
        raise errors.UserError(f"{target} already exists; --force overwrites it.")
    return target


@click.command()
@click.argument("local", type=click.Path(path_type=Path))
@click.argument("remote", type=path_argument.PATH)
@output.json_option
@context.pass_context
def put(ctx: context.Context, local: Path, remote: str, *, as_json: bool) -> None:
    """Upload the file LOCAL to REMOTE: a folder, or the path of the new file.

    An existing file gets a new version.
    """
    if not local.is_file():
        raise errors.UserError(f"{local} is not a file." if local.exists() else f"{local} does not exist.")
    path, item = trio.run(_put, ctx, local, remote)
    daemonctl.have_looked(ctx.account, ctx.settings())
    if as_json:
        output.document(remote_paths.as_json(item) | {"path": path})
    else:
        output.say(f"{path}: {output.size(int(item.size or 0))}")


async def _put(ctx: context.Context, local: Path, remote: str) -> tuple[str, items.File]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        paths = remote_paths.RemotePaths(client, settings)
        path = remote_paths.normal(remote)
        there = await paths.find(path)
        if isinstance(there, items.Folder):
            path = remote_paths.normal(f"{path}/{local.name}")
            there = await paths.find(path)
        elif remote.endswith("/"):
            raise errors.UserError(f"There is no folder {path} on the service.")
        if there is not None and not isinstance(there, items.File):
            raise errors.UserError(f"{path} already exists and is not a file.")
        folder, _, name = path.rpartition("/")
        parent = await paths.get_folder(folder)
        with progress.transfer(name, local.stat().st_size) as bar:
            return path, await _send(client, local, there, parent.id, name, bar)


async def _send(
    client: session.Client,
    local: Path,
    there: items.File | None,
    parent_id: str,
    name: str,
    bar: progress.Bar,
) -> items.File:
    source = multipart.FileSource(local)
    sha1 = await transfers.sha1_of(local)
    if there:
        return await client.uploads.new_version(there.id, source, sha1=sha1, etag=there.etag, progress=bar)
    attributes = uploads.UploadAttributes(name=name, parent=base.Reference(id=parent_id))
    return await client.uploads.new_file(attributes, source, sha1=sha1, progress=bar)
