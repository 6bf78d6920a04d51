"""`cmsfs text`: prints the text that the service extracted from a document.

It calls the service directly, so it works without a mounted drive; with one, a path below the mountpoint
works, too.

Rule: text is written unchanged to a file or pipe; if there is none, the reason is reported.
"""

import click
import trio

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, daemonctl
from cmsfs.client import remote_paths
from cmsfs.client.content import representations
from cmsfs.ipc import control
from cmsfs.models.content import items

# More than the text of any document.
MAX_BYTES = 256 * 1024 * 1024


@click.command()
@click.argument("path")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    help="Seconds to wait for the text extraction.",
)
@output.json_option
@context.pass_context
def text(ctx: context.Context, path: str, *, wait: float, as_json: bool) -> None:
    """Print the extracted text of the document PATH (at the service, or on a mounted drive)."""
    remote = _on_service(ctx, path)
    found, words = trio.run(_text, ctx, remote, wait)
    if as_json:
        output.document({"path": remote, "id": found.id, "sha1": found.sha1, "text": words})
    else:
        output.printed(words, nl=not words.endswith("\n"))


def _on_service(ctx: context.Context, path: str) -> str:
    """Return the path at the service.  Raises `UserError` for a file with changes that are not uploaded."""
    daemon = daemonctl.find_for(ctx.account, ctx.settings())
    if daemon is None:
        return remote_paths.normal(path)
    try:
        remote = daemonctl.on_drive(daemon, path)
    except errors.UserError:
        return remote_paths.normal(path)
    try:
        answers = list(daemonctl.exchange(daemon.socket, control.GetPathStatus(path=remote)))
    except errors.UserError:
        return remote  # the drive does not know it; the service may
    for answer in answers:
        if isinstance(answer, control.PathStatus) and answer.sync == "local":
            raise errors.UserError(f"{remote} exists only locally, so the service cannot extract its text.")
        if isinstance(answer, control.PathStatus) and answer.sync != "synced":
            raise errors.UserError(
                f"{remote} has unsynced changes ({answer.sync}); `{output.command()} sync` uploads them."
            )
    return remote


async def _text(ctx: context.Context, remote: str, wait: float) -> tuple[items.File, str]:
    settings = ctx.settings()
    async with connect.open_backend(settings) as client:
        found = await remote_paths.RemotePaths(client, settings).get(remote)
        name = remote_paths.normal(remote)
        if not isinstance(found, items.File):
            raise errors.UserError(f"{name} is not a file; only files have text.")
        words = None
        with trio.move_on_after(wait) as deadline:
            words = await client.representations.read(found.id, representations.TEXT, limit=MAX_BYTES)
        if deadline.cancelled_caught:
            raise errors.UserError(
                f"The text of {name} was not extracted within {wait:g} s; --wait sets a longer limit."
            )
        if words is None:
            raise errors.UserError(f"No text could be extracted from {name}.")
        return found, words.decode("utf-8", "replace")
