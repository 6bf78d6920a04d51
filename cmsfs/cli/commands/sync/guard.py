"""`cmsfs guard`: shows which mass change the guard has noticed, and lets it go.

Rule: nothing here looks into the mount: the daemon is asked.
"""

import click

from cmsfs import output
from cmsfs.cli.support import context, daemonctl
from cmsfs.ipc import attention, control


@click.command()
@click.argument("answer", type=click.Choice(["allow"]), required=False)
@output.json_option
@context.pass_context
def guard(ctx: context.Context, *, answer: str | None, as_json: bool) -> None:
    """Show what the guard has noticed, and with `allow` upload it.

    When a program encrypts, renames or deletes many files in a short time, nothing more is uploaded or
    deleted at the service until you have decided.  The limits are the settings guard_files and
    guard_deletions.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    if answer is not None:
        done = daemonctl.carry_out(daemon, control.AllowChanges())
        output.say(done.message or "The changes are uploaded now.")
        return
    found = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts).guard
    if as_json:
        output.document(None if found is None else found.model_dump(mode="json"))
    elif found is None:
        output.say("Nothing was noticed; changes are uploaded.")
    else:
        _show(found)


def _show(found: attention.GuardNotice) -> None:
    output.say(f"{found.said} That began {output.ago(found.since)}:")
    output.table(
        [
            [one.name or "unknown", f"process {one.pid}", output.plural(one.files, "file")]
            for one in found.programs
        ],
        indent="  ",
    )
    output.say(f"{output.plural(found.waiting, 'change')} held; nothing more is uploaded or deleted.")
    program = output.command()
    moment = found.since.astimezone().isoformat(timespec="milliseconds")
    output.say(f"If that was meant: `{program} guard allow`.")
    output.say(
        f"If not, end the program, then `{program} guard allow` and `{program} restore {found.folder} "
        f"--as-of {moment}`: every change is a version or in the trash, and goes back."
    )
