"""`cmsfs shared`: lists shares that await your answer (`shared = "ask"`) and accepts or hides them.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import attention, control


@click.command()
@click.option(
    "--accept",
    multiple=True,
    metavar="ITEM",
    help="Accept the item (ID or name): show it in `Shared with me`.",
)
@click.option(
    "--decline", multiple=True, metavar="ITEM", help="Decline the item: hide it, without further reminders."
)
@output.json_option
@context.pass_context
def shared(ctx: context.Context, *, accept: tuple[str, ...], decline: tuple[str, ...], as_json: bool) -> None:
    """List shared items that you have not accepted, and accept or decline them.

    With `shared = "ask"` in the settings, shared items appear on the drive only once accepted.  Declined
    items can be accepted later; items that are shared again are offered again.
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
        output.say("No shared items are waiting to be accepted.")
        return
    output.table([_row(one) for one in found.offers])
    output.say(f"`{output.command()} shared --accept ITEM` accepts one, `--decline ITEM` declines it.")


def _row(one: attention.OfferStatus) -> list[str]:
    return [one.id, one.type, one.name, f"from {one.owner}", "declined" if one.declined else ""]
