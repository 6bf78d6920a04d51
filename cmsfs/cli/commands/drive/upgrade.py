"""`cmsfs upgrade`: switches a mounted drive to the installed version, without unmounting it.

The daemon does the work (`daemon/upgrade.py`); this command requests it and waits.
"""

import click

from cmsfs import errors, output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control
from cmsfs.runtime import clock

# The new daemon opens the local state, which may include an upgrade of the database.
SECONDS = 120.0
LOOK_SECONDS = 0.02


@click.command()
@context.pass_context
def upgrade(ctx: context.Context) -> None:
    """Switch the mounted drive to the installed version without unmounting it.

    Open files stay open, and programs wait a moment.  If the installed version does not start, or a program
    waits for the service just now, the drive goes on as it is and this command fails.
    """
    settings = ctx.settings()
    before = daemonctl.require(ctx.account, settings)
    daemonctl.carry_out(before, control.Upgrade())
    deadline = clock.monotonic() + SECONDS
    while clock.monotonic() < deadline:
        daemon = daemonctl.find_account(before.account)
        if daemon is not None and daemon.stage == "mounted":
            output.say(f"The drive at {daemon.mountpoint} runs version {daemon.version}.")
            return
        clock.sleep(LOOK_SECONDS)
    raise errors.UserError("The drive was handed over and does not respond; see `cmsfs doctor`.")
