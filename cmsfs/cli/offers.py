"""`cmsfs shared`: what others share and is not shown yet, where the settings say to ask (`shared = "ask"`).

Rule: nothing here looks into the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli import context, daemonctl
from cmsfs.models import control, waiting


@click.command()
@click.option("--accept", multiple=True, metavar="ITEM", help="Show it in `Shared with me` (id or name).")
@click.option("--decline", multiple=True, metavar="ITEM", help="Do not show it, and tell of it no more.")
@output.json_option
@context.pass_context
def shared(ctx: context.Context, *, accept: tuple[str, ...], decline: tuple[str, ...], as_json: bool) -> None:
    """Show what others share and you have not accepted, and say what of it you want.

    With `shared = "ask"` in the settings nothing that others share is on the drive before you accept it.
    What you declined can be accepted later; what is shared anew is asked about again.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    for words, is_accepted in ((accept, True), (decline, False)):
        if words:
            wish = control.DecideOffers(words=list(words), accept=is_accepted)
            output.say(daemonctl.carry_out(daemon, wish).message)
    if accept or decline:
        return
    found = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts)
    if as_json:
        output.document([one.model_dump(mode="json") for one in found.offers])
        return
    if not found.offers:
        output.say("Nothing that others share waits for you.")
        return
    output.table([_row(one) for one in found.offers])
    output.say(f"`{output.command()} shared --accept ITEM` shows one, `--decline ITEM` does not.")


def _row(one: waiting.Offer) -> list[str]:
    return [one.id, one.type, one.name, f"from {one.owner}", "declined" if one.declined else ""]
