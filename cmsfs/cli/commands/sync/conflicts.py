"""`cmsfs conflicts`, `retry`, `discard`: items that need attention, and how to resolve them.

A path is a local one below the mountpoint, or one relative to the drive, as `cmsfs status` shows it.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click

from cmsfs import errors, output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import attention, control


@click.command()
@click.option(
    "--dismiss-recovered", "dismiss", is_flag=True, help="Stop listing the recovered files (they are kept)."
)
@output.json_option
@context.pass_context
def conflicts(ctx: context.Context, *, dismiss: bool, as_json: bool) -> None:
    """List items needing attention: conflict copies, rejected changes, recovered files."""
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
    if not any(waits) and not offered and found.missing is None and found.guard is None:
        output.say("Nothing needs your attention.")
    if found.guard is not None:
        output.say(
            f"{found.guard.sentence} {output.plural(found.guard.waiting, 'change')} held; decide with "
            f"`{output.command()} guard`:"
        )
        output.table([[one.path, one.kind] for one in found.guard.held], indent="  ")
        if (more := found.guard.waiting - len(found.guard.held)) > 0:
            output.note(f"and {more:,} more")
    if found.missing is not None:
        output.say(
            f"{output.plural(found.missing.items, 'item')} missing at the service; decide with "
            f"`{output.command()} missing`."
        )
    if offered:
        output.say(
            f"{output.plural(offered, 'item')} shared with you and not accepted yet; `{output.command()} "
            "shared` lists them."
        )
    if found.copies:
        output.say("Conflict copies (keep what you want and delete the rest):")
        rows = [[copy.path, output.ago(copy.modified), _beside(copy)] for copy in found.copies]
        output.table(rows, indent="  ")
    if found.held:
        output.say(
            f"{output.plural(len(found.held), 'change')} rejected by the service (`{output.command()} "
            f"retry PATH` tries one again, `{output.command()} discard PATH` discards it):"
        )
        output.table([[op.path, op.kind, op.error] for op in found.held], indent="  ")
    if found.stuck:
        output.say(
            f"{output.plural(len(found.stuck), 'change')} failing repeatedly, still retrying "
            f"(`{output.command()} discard PATH` discards one):"
        )
        output.table([[op.path, op.kind, op.error] for op in found.stuck], indent="  ")
    if found.recovered:
        output.say(
            f"{output.plural(len(found.recovered), 'file')} recovered, with no place on the drive; move "
            f"them, or run `{output.command()} conflicts --dismiss-recovered`:"
        )
        rows = [[one.path, output.size(one.bytes), output.ago(one.modified)] for one in found.recovered]
        output.table(rows, indent="  ")


def _beside(copy: attention.ConflictCopyStatus) -> str:
    return f"beside {copy.original}" if copy.original else "the original is gone"


@click.command()
@click.argument("path", required=False)
@context.pass_context
def retry(ctx: context.Context, path: str | None) -> None:
    """Retry rejected changes: those of the item at PATH, or all."""
    daemon = daemonctl.require(ctx.account, ctx.settings())
    daemonctl.carry_out(
        daemon, control.Retry(path=None if path is None else daemonctl.on_drive(daemon, path))
    )
    output.say("Retrying; `cmsfs status` shows the progress.")


@click.command()
@click.argument("path")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@context.pass_context
def discard(ctx: context.Context, path: str, *, yes: bool) -> None:
    """Discard a rejected change; the item reverts to its state at the service.

    A new file is removed from the drive, a new version reverts to the previous one, a rename or deletion is
    undone.  Contents that exist only locally are kept in a folder outside the drive.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    found = daemonctl.on_drive(daemon, path)
    if not yes and not output.confirm(f"Discard the change of {found}?"):
        raise errors.UserError("Nothing was discarded.")
    done = daemonctl.carry_out(daemon, control.Discard(path=found))
    output.say(f"Discarded the change of {found}. {done.message}".rstrip())
