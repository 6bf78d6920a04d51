"""What lies in the mountpoint below the drive, brought into it."""

import click

from cmsfs import errors, output
from cmsfs.cli import context, daemonctl
from cmsfs.models import control


@click.command()
@context.pass_context
def adopt(ctx: context.Context) -> None:
    """Bring into the drive what was saved in its folder while it was not mounted.

    The drive covers such files; `cmsfs status` tells of them.  What has a name that is taken on the drive
    gets another one, and what cannot be brought in stays where it is.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    for answer in daemonctl.exchange(daemon.socket, control.Adopt()):
        if isinstance(answer, control.Adopted):
            _tell(answer)
            return
    raise errors.UserError("The daemon answered something else.")


def _tell(done: control.Adopted) -> None:
    if not done.items and not done.failed:
        output.say("Nothing lies below the drive.")
    if done.items:
        output.say(f"{output.plural(done.items, 'item')} brought in.")
    if done.renamed:
        output.say("Their names were taken, so that these are called:")
        output.table([[name] for name in done.renamed], indent="  ")
    if done.failed:
        output.table([[one] for one in done.failed], indent="  ")
        raise errors.UserError(f"{output.plural(len(done.failed), 'item')} could not be brought in.")
