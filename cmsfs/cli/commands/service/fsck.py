"""`cmsfs fsck`: checks the local state, by running `daemon.fsck` in a separate process.

Rule: the CLI never opens the daemon's files itself.
"""

import subprocess
import sys

import click

from cmsfs import output
from cmsfs.cli.support import context


@click.command()
@click.option("--repair", is_flag=True, help="Repair errors; data that exists only locally is never lost.")
@click.option("--quick", is_flag=True, help="Skip verifying cached contents.")
@output.json_option
@context.pass_context
def fsck(ctx: context.Context, *, repair: bool, quick: bool, as_json: bool) -> None:
    """Check the local state: tree, pending changes, drafts and cache.

    The drive must not be mounted.  Exit code 1: errors were found and not repaired.
    """
    settings = ctx.settings()
    command = [sys.executable, "-P", "-m", "daemon.fsck", "--account", settings.account]
    flags = {"--repair": repair, "--quick": quick, "--json": as_json}
    done = subprocess.run([*command, *(flag for flag, given in flags.items() if given)], check=False)
    sys.exit(done.returncode)
