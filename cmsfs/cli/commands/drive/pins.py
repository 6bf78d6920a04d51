"""`cmsfs pin`, `unpin`, `pins`: keep items available offline.

A path is a local one below the mountpoint, or one relative to the drive.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control, diagnostics

_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")


@click.command()
@_paths
@context.pass_context
def pin(ctx: context.Context, paths: tuple[str, ...]) -> None:
    """Make files and folders available offline, with everything below them, now and in future.

    Pinned items do not count against the cache limit.  A pin that would leave less free disk space than
    configured (`keep_free_bytes`) is refused.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    for given in paths:
        path = daemonctl.on_drive(daemon, given)
        done = daemonctl.carry_out(daemon, control.Pin(path=path))
        output.say(done.message or f"{path} is pinned; `{output.command()} pins` shows the progress.")


@click.command()
@_paths
@context.pass_context
def unpin(ctx: context.Context, paths: tuple[str, ...]) -> None:
    """Unpin files and folders; downloaded contents are evicted when space is needed."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    for given in paths:
        path = daemonctl.on_drive(daemon, given)
        daemonctl.carry_out(daemon, control.Unpin(path=path))
        output.say(f"{path} is no longer pinned.")


@click.command()
@output.json_option
@context.pass_context
def pins(ctx: context.Context, *, as_json: bool) -> None:
    """List pinned items and their download progress."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    found = daemonctl.ask(daemon, control.GetPins(), control.PinList)
    if as_json:
        output.document({**found.pins.model_dump(mode="json"), "complete": found.pins.is_complete})
        return
    if not found.pins.items:
        output.say(
            f"Nothing is pinned; `{output.command()} pin PATH` makes a file or folder available offline."
        )
    output.table([[one.path, how_far(one)] for one in found.pins.items])
    if found.pins.listing:
        output.say("Folders are still being listed; totals may grow.")
    if found.pins.problem:
        output.note(found.pins.problem)


def how_far(one: diagnostics.Pinned) -> str:
    """Describe the progress of one pinned item."""
    files = output.plural(one.files, "file")
    sizes = f"{output.size(one.bytes_here)} of {output.size(one.bytes)}"
    if one.listing:
        return f"{one.files_here:,} of {files} so far, {sizes}, being listed"
    if one.files_here == one.files:
        return f"complete, {files}, {output.size(one.bytes)}"
    return f"{one.files_here:,} of {files}, {sizes}, {100 * one.bytes_here // one.bytes} %"
