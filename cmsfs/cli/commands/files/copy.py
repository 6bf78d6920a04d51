"""`cmsfs copy`: copies files and folders at the service.

A path is a local one below the mountpoint, or one relative to the drive.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control


@click.command()
@click.argument("source")
@click.argument("destination")
@context.pass_context
def copy(ctx: context.Context, source: str, destination: str) -> None:
    """Copy SOURCE on the drive into the folder DESTINATION, or to a new name.

    The service makes the copy, of files and whole folders of any size: nothing is downloaded or uploaded. It
    has the description and tags of the original. Changes that are not uploaded yet are sent first.
    Nothing is replaced. Without a connection files and folders are copied on the drive, and by the
    service later.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    path, to = (daemonctl.on_drive(daemon, given) for given in (source, destination))
    if destination.endswith("/") and to != "/":
        to += "/"
    done = daemonctl.carry_out(daemon, control.Copy(path=path, to=to))
    output.say(f"{path} was copied to {done.message}.")
