"""`cmsfs free`: frees disk space by evicting cached contents that can be downloaded again.

A path is a local one below the mountpoint, or one relative to the drive.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import errors, output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control


@click.command()
@click.option("--unpin", is_flag=True, help="Unpin them and everything below them, too.")
@output.json_option
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@context.pass_context
def free(ctx: context.Context, paths: tuple[str, ...], *, unpin: bool, as_json: bool) -> None:
    """Free up space: evict downloaded contents, which are downloaded again on the next read.

    Files that are pending upload, pinned or open are kept.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    found = []
    for given in paths:
        path = daemonctl.on_drive(daemon, given)
        freed = _ask(daemon, control.Free(path=path, unpin=unpin))
        found.append({"path": path, **freed.model_dump(mode="json", exclude={"kind"})})
        if not as_json:
            output.say(f"{path}: {in_words(freed)}")
    if as_json:
        output.document(found)


def _ask(daemon: daemonctl.Daemon, request: control.Free) -> control.Freed:
    for answer in daemonctl.exchange(daemon.socket, request):
        if isinstance(answer, control.Freed):
            return answer
    raise errors.UserError("Unexpected response from the daemon.")


def in_words(freed: control.Freed) -> str:
    """Describe what was evicted and what was kept, in a sentence or two."""
    text = "nothing to free."
    if freed.bytes:
        text = f"{output.size(freed.bytes)} freed, {output.plural(freed.files, 'file')} online only."
    reasons = [
        ("pending upload", freed.unsent),
        ("pinned", freed.pinned),
        ("in use", freed.in_use),
    ]
    stays = [f"{count:,} {reason}" for reason, count in reasons if count]
    return f"{text} Kept: {', '.join(stays)}." if stays else text
