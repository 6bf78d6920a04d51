"""`cmsfs adopt`: moves files from the mountpoint's directory, hidden by the mount, into the drive."""

import click

from cmsfs import errors, output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control


@click.command()
@context.pass_context
def adopt(ctx: context.Context) -> None:
    """Move files into the drive that were saved in its folder while it was not mounted.

    The mounted drive hides such files; `cmsfs status` reports them.  Items whose name is taken on the drive
    are renamed, and items that cannot be moved stay where they are.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    for answer in daemonctl.exchange(daemon.socket, control.Adopt()):
        if isinstance(answer, control.Adopted):
            _tell(answer)
            return
    raise errors.UserError("Unexpected response from the daemon.")


def _tell(done: control.Adopted) -> None:
    if not done.items and not done.failed:
        output.say("There are no hidden files below the drive.")
    if done.items:
        output.say(f"{output.plural(done.items, 'item')} moved into the drive.")
    if done.renamed:
        output.say("Renamed, because their names were taken:")
        output.table([[name] for name in done.renamed], indent="  ")
    if done.failed:
        output.table([[one] for one in done.failed], indent="  ")
        raise errors.UserError(
            f"{output.plural(len(done.failed), 'item')} could not be moved into the drive."
        )
