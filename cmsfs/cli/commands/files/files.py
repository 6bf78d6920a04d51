"""`cmsfs get` and `put`: download and upload files and folders without a mounted drive.

They call the service directly, embedded or remote.

Rule: `put` creates a new version only of the version it saw, never of a later one; `get` never overwrites a
local file unless asked to.
"""

import sys
from pathlib import Path

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import (
    context,
    daemonctl,
    folder_downloads,
    folder_uploads,
    path_argument,
    progress,
    transfers,
)
from cmsfs.cli.support.folder_transfers import Exclusions, FolderTransfer
from cmsfs.client import remote_paths, session
from cmsfs.models.content import items

_exclude = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out what has such a name in a folder, for example '*.o'; with a slash, such a path in it.",
)


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.argument("local", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite existing local files.")
@_exclude
@output.json_option
@context.pass_context
def get(
    ctx: context.Context,
    remote: str,
    local: Path | None,
    *,
    force: bool,
    exclude: tuple[str, ...],
    as_json: bool,
) -> None:
    """Download REMOTE, for example /Documents/a.txt, to LOCAL ("-" for standard output).

    A folder is downloaded with all that is in it; files that are the same here already are left alone.
    """
    if str(local) == "-" and as_json:
        raise click.UsageError("--json and the file cannot both be written to standard output.")
    item, target, folder = trio.run(_get, ctx, remote, local, force, Exclusions(exclude))
    if folder is not None:
        _tell(folder, item, target, as_json=as_json, what="downloaded")
    elif as_json:
        output.document(remote_paths.as_json(item) | {"local": str(target)})
    elif target:
        output.say(f"{target}: {output.size(int(item.size or 0))}")


async def _get(
    ctx: context.Context,
    remote: str,
    local: Path | None,
    force: bool,
    exclude: Exclusions,
) -> tuple[items.File | items.Folder, Path | None, FolderTransfer | None]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        paths = remote_paths.RemotePaths(client, settings)
        item = await paths.get(remote)
        if isinstance(item, items.WebLink):
            raise errors.UserError(f"{remote_paths.normal(remote)} is a web link to {item.url}.")
        if isinstance(item, items.Folder):
            place = _folder_target(item.name or "", local)
            return (
                item,
                place,
                await folder_downloads.download(client, paths, item, place, force=force, exclude=exclude),
            )
        target = _target(item.name or "download", local, force=force)
        with progress.transfer(item.name or "", int(item.size or 0)) as bar:
            if target is None:
                await transfers.write(client, item, sys.stdout.buffer, progress=bar)
                sys.stdout.buffer.flush()
            else:
                await transfers.save(client, item, target, force=force, progress=bar)
        return item, target, None


def _folder_target(name: str, local: Path | None) -> Path:
    """Return the local path for a downloaded folder, by the rules of `cp -r`.  Raises `UserError`."""
    if local is not None and str(local) == "-":
        raise errors.UserError("A folder cannot be written to standard output.")
    if local is None and not name:
        raise errors.UserError("Name a local folder for the whole drive: get / FOLDER.", exit_code=2)
    target = local or Path()
    if target.is_dir() and name:
        target /= name.replace("/", "_")
    if not target.parent.is_dir():
        raise errors.UserError(f"There is no folder {target.parent}.")
    if target.exists() and not target.is_dir():
        raise errors.UserError(f"{target} already exists and is not a folder.")
    return target


def _target(name: str, local: Path | None, *, force: bool) -> Path | None:
    """Return the local path for a download; None is standard output.  Raises `UserError`."""
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
@_exclude
@output.json_option
@context.pass_context
def put(ctx: context.Context, local: Path, remote: str, *, exclude: tuple[str, ...], as_json: bool) -> None:
    """Upload LOCAL, a file or a folder, to REMOTE: a folder, or the path of the new item.

    An existing file gets a new version.  Of a folder, files that are the same at the service already are
    left alone, and symbolic links are left out.
    """
    if not local.is_file() and not local.is_dir():
        raise errors.UserError(f"{local} is not a file." if local.exists() else f"{local} does not exist.")
    path, item, folder = trio.run(_put, ctx, local, remote, Exclusions(exclude))
    daemonctl.poll_drive(ctx.account, ctx.settings())
    if folder is not None:
        _tell(folder, item, path, as_json=as_json, what="uploaded")
    elif as_json:
        output.document(remote_paths.as_json(item) | {"path": path})
    else:
        output.say(f"{path}: {output.size(int(item.size or 0))}")


async def _put(
    ctx: context.Context, local: Path, remote: str, exclude: Exclusions
) -> tuple[str, items.File | items.Folder, FolderTransfer | None]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        paths = remote_paths.RemotePaths(client, settings)
        path = remote_paths.normal(remote)
        there = await paths.find(path)
        if isinstance(there, items.Folder):
            path = remote_paths.normal(f"{path}/{local.resolve().name}")
            there = await paths.find(path)
        elif remote.endswith("/"):
            raise errors.UserError(f"There is no folder {path} on the service.")
        parent, _, name = path.rpartition("/")
        above = await paths.get_folder(parent)
        if local.is_dir():
            if there is not None and not isinstance(there, items.Folder):
                raise errors.UserError(f"{path} already exists and is not a folder.")
            folder = there or await client.folders.create(name, above.id)
            done = await folder_uploads.upload(client, paths, local, folder, exclude=exclude)
            return path, folder, done
        return path, await _put_file(client, local, there, path, above.id), None


async def _put_file(
    client: session.Client, local: Path, there: remote_paths.Found | None, path: str, parent_id: str
) -> items.File:
    if there is not None and not isinstance(there, items.File):
        raise errors.UserError(f"{path} already exists and is not a file.")
    name = path.rpartition("/")[2]
    with progress.transfer(name, local.stat().st_size) as bar:
        sha1 = await transfers.sha1_of(local)
        return await folder_uploads.send(client, local, there, parent_id, name, sha1=sha1, bar=bar)


def _tell(
    done: FolderTransfer,
    item: items.File | items.Folder,
    target: Path | str | None,
    *,
    as_json: bool,
    what: str,
) -> None:
    """Print the result for a folder.  Raises `UserError` if some of it failed."""
    if as_json:
        output.document({"id": item.id, "name": item.name, "target": str(target)} | done.as_json())
    else:
        output.say(done.sentence(target))
    for path in done.left_out:
        output.note(f"{path} is not a regular file and was left out.")
    for path, reason in done.failed.items():
        output.note(f"{path}: {reason}")
    if done.failed:
        raise errors.UserError(f"{output.plural(len(done.failed), 'item')} could not be {what}.")
