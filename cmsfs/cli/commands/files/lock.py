"""`cmsfs lock` and `unlock`: locks files at the service against changes by others, and folders against being
moved and deleted by anybody.

They call the service directly, so they work without a mounted drive.

Rule: somebody else's lock is reported with its owner, and left in place.
"""

import contextlib
from datetime import UTC, timedelta

import click

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, daemonctl, durations, path_argument
from cmsfs.client import remote_paths
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.models.content import folder_locks, items
from cmsfs.runtime import clock


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.option(
    "--for", "seconds", type=durations.Duration(), help="Expire the lock after this time, for example 8h."
)
@click.option("--no-download", is_flag=True, help="Prevent others from downloading the file, too.")
@output.json_option
@context.pass_context
def lock(
    ctx: context.Context, remote: str, *, seconds: float | None, no_download: bool, as_json: bool
) -> None:
    """Lock REMOTE, for example /Documents/a.txt, until `unlock`.

    A file is locked against changes by others, a folder against being moved, renamed and deleted by anybody.
    """
    done = asking.run(_lock, ctx, remote, seconds, no_download)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    _tell(remote, done, as_json=as_json)


@click.command()
@click.argument("remote", type=path_argument.PATH)
@output.json_option
@context.pass_context
def unlock(ctx: context.Context, remote: str, *, as_json: bool) -> None:
    """Unlock the file or folder REMOTE."""
    done = asking.run(_unlock, ctx, remote)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    _tell(remote, done, as_json=as_json)


def _tell(remote: str, done: items.File | folder_locks.FolderLock | None, *, as_json: bool) -> None:
    path = remote_paths.normal(remote)
    if not isinstance(done, items.File):
        if as_json:
            output.document({"path": path, "lock": done.model_dump(mode="json") if done else None})
        else:
            output.say(f"{path} is {'' if done else 'not '}locked against being moved and deleted.")
        return
    if as_json:
        found = done.lock.model_dump(mode="json") if done.lock is not None else None
        output.document({"path": path, "lock": found})
    elif done.lock is None:
        output.say(f"{path} is not locked.")
    else:
        ends = done.lock.expired_at
        until = f" until {ends.astimezone():%Y-%m-%d %H:%M}" if ends else ""
        output.say(f"{path} is locked for you{until}.")


async def _lock(
    ctx: context.Context, remote: str, seconds: float | None, no_download: bool
) -> items.File | folder_locks.FolderLock:
    async with connect.open_backend(ctx.settings()) as client:
        found = await _item(client, ctx, remote)
        if isinstance(found, items.Folder):
            if seconds is not None or no_download:
                raise errors.UserError("A folder's lock neither expires nor prevents downloads.", exit_code=2)
            with contextlib.suppress(errors.Conflict):
                return await client.folder_locks.lock(found.id)
            return (await client.folder_locks.of(found.id))[0]
        ends = None if seconds is None else clock.datetime_now(UTC) + timedelta(seconds=seconds)
        try:
            return await client.locks.lock(found.id, expires_at=ends, prevent_download=no_download)
        except errors.Forbidden as error:
            raise await _whose(client, found, error) from error


async def _unlock(ctx: context.Context, remote: str) -> items.File | None:
    async with connect.open_backend(ctx.settings()) as client:
        found = await _item(client, ctx, remote)
        if isinstance(found, items.Folder):
            await client.folder_locks.unlock(found.id)
            return None
        try:
            return await client.locks.unlock(found.id)
        except errors.Forbidden as error:
            raise await _whose(client, found, error) from error


async def _item(client: Client, ctx: context.Context, remote: str) -> items.File | items.Folder:
    found = await remote_paths.RemotePaths(client, ctx.settings()).get(remote)
    if isinstance(found, items.WebLink) or found.id == wire_names.ROOT_ID:
        said = "only files and folders can be locked, the top folder not"
        raise errors.UserError(f"{remote_paths.normal(remote)} cannot be locked: {said}.")
    return found


async def _whose(client: Client, found: items.File, error: errors.Forbidden) -> errors.CmsfsError:
    if error.code != "access_denied_item_locked":
        return error
    held = (await client.items.get("file", found.id)).lock
    name = (held.created_by.name if held is not None and held.created_by else None) or "somebody else"
    return errors.UserError(f"{found.name} is locked by {name}.")
