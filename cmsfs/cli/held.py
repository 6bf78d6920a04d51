"""What waits for a person, and what a person does about it: conflicts, retry, discard.

A path is one on this machine below the mountpoint, or one of the drive, as `cmsfs status` shows it.

Rule: nothing here looks into the mount: the daemon is asked.
"""

import click

from cmsfs import errors, output
from cmsfs.cli import context, daemonctl
from cmsfs.models import control, waiting


@click.command()
@click.option(
    "--dismiss-recovered", "dismiss", is_flag=True, help="Stop listing the recovered files; they stay."
)
@output.json_option
@context.pass_context
def conflicts(ctx: context.Context, *, dismiss: bool, as_json: bool) -> None:
    """List what waits for you: conflict copies, changes that the service refuses, and recovered files."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    if dismiss:
        done = daemonctl.carry_out(daemon, control.DismissRecovered())
        output.say(done.message or "There are no recovered files to dismiss.")
        return
    found = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts)
    if as_json:
        output.document(found.model_dump(mode="json", exclude={"kind"}))
        return
    waits = (found.copies, found.held, found.stuck, found.recovered)
    offered = sum(not one.declined for one in found.offers)
    if not any(waits) and not offered and found.missing is None:
        output.say("Nothing waits for you.")
    if found.missing is not None:
        output.say(
            f"{output.plural(found.missing.items, 'item')} missing at the service;"
            f" `{output.command()} missing` asks what to do."
        )
    if offered:
        output.say(
            f"{output.plural(offered, 'item')} that others share, and you have not accepted:"
            f" `{output.command()} shared` lists them."
        )
    if found.copies:
        output.say("Conflict copies; keep what you want, and delete the rest:")
        rows = [[copy.path, output.ago(copy.modified), _beside(copy)] for copy in found.copies]
        output.table(rows, indent="  ")
    if found.held:
        output.say(
            f"{output.plural(len(found.held), 'change')} that the service refuses:"
            f" `{output.command()} retry PATH` tries one again,"
            f" `{output.command()} discard PATH` gives it up."
        )
        output.table([[op.path, op.kind, op.error] for op in found.held], indent="  ")
    if found.stuck:
        output.say(
            f"{output.plural(len(found.stuck), 'change')} that get nowhere and go on being tried;"
            f" `{output.command()} discard PATH` gives one up."
        )
        output.table([[op.path, op.kind, op.error] for op in found.stuck], indent="  ")
    if found.recovered:
        output.say(
            f"{output.plural(len(found.recovered), 'file')} recovered without a place on the drive; move them"
            f" where you want them, or `{output.command()} conflicts --dismiss-recovered`:"
        )
        rows = [[one.path, output.size(one.bytes), output.ago(one.modified)] for one in found.recovered]
        output.table(rows, indent="  ")


def _beside(copy: waiting.Copy) -> str:
    return f"beside {copy.original}" if copy.original else "the other one is gone"


@click.command()
@click.argument("path", required=False)
@context.pass_context
def retry(ctx: context.Context, path: str | None) -> None:
    """Try again what the service has refused: of the item at PATH, or everything."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(
        daemon, control.Retry(path=None if path is None else daemonctl.on_drive(daemon, path))
    )
    output.say("It is tried again; `cmsfs status` shows how it goes.")


@click.command()
@click.argument("path")
@click.option("--yes", is_flag=True, help="Do not ask.")
@context.pass_context
def discard(ctx: context.Context, path: str, *, yes: bool) -> None:
    """Give up a change that the service refuses; the item is then as the service has it.

    A new file leaves the drive, a new version gives way to the one before, a rename or a deletion is
    undone.  Bytes that only this machine has are kept in a folder outside the drive.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    found = daemonctl.on_drive(daemon, path)
    if not yes and not output.asked(f"Give up the change of {found}?"):
        raise errors.UserError("Nothing was given up.")
    done = daemonctl.carry_out(daemon, control.Discard(path=found))
    output.say(f"The change of {found} is given up. {done.message}".rstrip())
