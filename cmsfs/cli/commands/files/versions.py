"""`cmsfs versions`: lists, downloads and restores versions of a file.

It calls the service directly, so it works without a mounted drive; on a drive, `NAME@versions` lists the
versions.

Rule: restoring a version creates a new version; none is lost.
"""

import sys
from pathlib import Path

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, daemonctl, path_argument, progress, transfers
from cmsfs.client import remote_paths
from cmsfs.client.session import Client
from cmsfs.models.content import items, versions


@click.command("versions")
@click.argument("remote", type=path_argument.PATH)
@click.option("--restore", metavar="ID", help="Restore this version: make a copy of it the current version.")
@click.option("--get", "wanted", metavar="ID", help="Download this version.")
@click.option(
    "--output",
    "local",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Output file of --get, which must not exist (default: "-", standard output).',
)
@output.json_option
@context.pass_context
def versions_command(
    ctx: context.Context,
    remote: str,
    *,
    restore: str | None,
    wanted: str | None,
    local: Path | None,
    as_json: bool,
) -> None:
    """List, download or restore versions of the file REMOTE."""
    if wanted is None and local is not None:
        raise click.UsageError("--output requires --get.")
    if wanted is not None and (restore is not None or as_json):
        raise click.UsageError("--get cannot be combined with --restore or --json.")
    if wanted is not None:
        trio.run(_fetch, ctx, remote, wanted, local)
        return
    if restore is not None:
        made = trio.run(_restore, ctx, remote, restore)
        daemonctl.poll_drive(ctx.account, ctx.settings())
        if as_json:
            output.document(made.model_dump(mode="json"))
        else:
            output.say(f"Version {restore} was restored as the current version, {made.id}.")
        return
    current, past = asking.run(_versions, ctx, remote)
    if as_json:
        output.document([version.model_dump(mode="json") for version in (current, *past)])
        return
    output.table([_row(version, "current" if version is current else "") for version in (current, *past)])


async def _versions(
    ctx: context.Context, remote: str
) -> tuple[versions.FileVersion, list[versions.FileVersion]]:
    async with connect.open_backend(ctx.settings()) as client:
        return await _all(client, await _file(client, ctx, remote))


async def _restore(ctx: context.Context, remote: str, version_id: str) -> versions.FileVersion:
    async with connect.open_backend(ctx.settings()) as client:
        found = await _file(client, ctx, remote)
        current, past = await _all(client, found)
        if version_id == current.id:
            raise errors.UserError(f"Version {version_id} is already the current version.")
        version = _named(version_id, past)
        if version.trashed_at is not None:
            await client.versions.restore(found.id, version_id)
        return await client.versions.promote(found.id, version_id)


async def _fetch(ctx: context.Context, remote: str, version_id: str, local: Path | None) -> None:
    async with connect.open_backend(ctx.settings()) as client:
        found = await _file(client, ctx, remote)
        current, past = await _all(client, found)
        version = _named(version_id, [current, *past])
        size = int(version.size or 0)
        with progress.transfer(found.name or "", size) as bar:
            if local is None or str(local) == "-":
                await transfers.write(client, found, sys.stdout.buffer, progress=bar, version=version)
                sys.stdout.buffer.flush()
                return
            await transfers.save(client, found, local, force=False, progress=bar, version=version)
        output.say(f"{local}: {output.size(size)}")


async def _file(client: Client, ctx: context.Context, remote: str) -> items.File:
    found = await remote_paths.RemotePaths(client, ctx.settings()).get(remote)
    if not isinstance(found, items.File):
        raise errors.UserError(f"{remote_paths.normal(remote)} is not a file; only files have versions.")
    return found


async def _all(client: Client, found: items.File) -> tuple[versions.FileVersion, list[versions.FileVersion]]:
    whole = await client.items.get("file", found.id)
    current = versions.FileVersion(
        id=whole.file_version.id if whole.file_version else "",
        sha1=whole.sha1,
        name=whole.name,
        size=whole.size,
        modified_at=whole.modified_at,
        modified_by=whole.modified_by,
    )
    return current, await client.versions.past(found.id)


def _named(version_id: str, known: list[versions.FileVersion]) -> versions.FileVersion:
    for version in known:
        if version.id == version_id:
            return version
    raise errors.UserError(f"The file has no version {version_id}; `cmsfs versions` lists them.")


def _row(version: versions.FileVersion, mark: str) -> list[str]:
    when = version.modified_at.strftime("%Y-%m-%d %H:%M") if version.modified_at else ""
    who = (version.modified_by.name if version.modified_by else None) or version.uploader_display_name or ""
    trashed = "in the trash" if version.trashed_at else mark
    return [version.id, when, output.size(int(version.size or 0)), who, trashed]
