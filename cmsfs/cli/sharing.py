"""What a file manager offers beside the drive: the shared link of an item, the versions of a file.

Straight through the client, so they work without a drive, too.

Rule: a link that there is already is told, its terms untouched; asking for one never opens more than the
service's default does.
"""

import click
import trio

from cmsfs import errors
from cmsfs.auth import backend
from cmsfs.cli import context, output, remote_paths
from cmsfs.models import items, versions


@click.command()
@click.argument("remote")
@output.json_option
@context.pass_context
def link(ctx: context.Context, remote: str, *, as_json: bool) -> None:
    """Print the shared link of REMOTE, for example /Documents/a.txt; it is made if there is none.

    Who can open it is what the service has as its default.
    """
    shared = trio.run(_link, ctx, remote)
    if as_json:
        output.document(shared.model_dump(mode="json", include={"url", "access", "download_url"}))
    else:
        output.say(str(shared.url))


async def _link(ctx: context.Context, remote: str) -> items.SharedLink:
    settings = ctx.settings()
    async with backend.open_backend(settings) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
        link = await client.shared_links.get(found.type, found.id)
        if link is not None and link.url:
            return link
        return await client.shared_links.share(found.type, found.id)


@click.command("versions")
@click.argument("remote")
@output.json_option
@context.pass_context
def versions_command(ctx: context.Context, remote: str, *, as_json: bool) -> None:
    """List the versions of the file REMOTE, the newest first."""
    current, past = trio.run(_versions, ctx, remote)
    if as_json:
        output.document([version.model_dump(mode="json") for version in (current, *past)])
        return
    output.table([_row(version, "current" if version is current else "") for version in (current, *past)])


async def _versions(
    ctx: context.Context, remote: str
) -> tuple[versions.FileVersion, list[versions.FileVersion]]:
    settings = ctx.settings()
    async with backend.open_backend(settings) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
        if not isinstance(found, items.File):
            raise errors.UserError(f"{remote_paths.normal(remote)} is not a file; only files have versions.")
        whole = await client.files.get(found.id)
        current = versions.FileVersion(
            id=whole.file_version.id if whole.file_version else "",
            sha1=whole.sha1,
            name=whole.name,
            size=whole.size,
            modified_at=whole.modified_at,
            modified_by=whole.modified_by,
        )
        return current, await client.versions.past(found.id)


def _row(version: versions.FileVersion, mark: str) -> list[str]:
    when = version.modified_at.strftime("%Y-%m-%d %H:%M") if version.modified_at else ""
    who = (version.modified_by.name if version.modified_by else None) or version.uploader_display_name or ""
    trashed = "in the trash" if version.trashed_at else mark
    return [version.id, when, output.size(int(version.size or 0)), who, trashed]
