"""`cmsfs missing`: lists a mass deletion at the service that awaits confirmation, and confirms it.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import control


@click.command()
@click.option("--remove", is_flag=True, help="Confirm the removal and remove the items locally.")
@click.option("--keep", is_flag=True, help="Keep the items locally, and ask again in a day.")
@output.json_option
@context.pass_context
def missing(ctx: context.Context, *, remove: bool, keep: bool, as_json: bool) -> None:
    """List items missing at the service, and decide whether to remove them locally.

    When a comparison finds many items missing, nothing is removed without confirmation.  The service's
    administrator may be able to restore them; then they reappear unchanged.
    """
    if remove and keep:
        raise click.UsageError("--remove and --keep are mutually exclusive.")
    daemon = daemonctl.require(ctx.account, ctx.settings())
    if remove or keep:
        done = daemonctl.carry_out(daemon, control.DecideMissing(remove=remove))
        output.say(done.message or "Kept locally.")
        return
    found = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts)
    if as_json:
        output.document(None if found.missing is None else found.missing.model_dump(mode="json"))
        return
    if found.missing is None:
        output.say("Nothing is missing at the service.")
        return
    output.say(
        f"{output.plural(found.missing.items, 'item')} missing at the service, as of "
        f"{output.ago(found.missing.asked)}:"
    )
    output.table([[path] for path in found.missing.paths], indent="  ")
    output.say(
        f"`{output.command()} missing --remove` removes them locally; `{output.command()} missing --keep` "
        "keeps them for now."
    )
