"""`cmsfs guard`: shows the mass change that the guard has noticed, allows it, or undoes it.

The daemon undoes changes that are still held; changes that have reached the service are undone as by `cmsfs
restore`, and that can be undone in the same way.

Rule: nothing here accesses the mount: the daemon is asked.
"""

import click
import trio

from cmsfs import config, errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, daemonctl, progress
from cmsfs.client import session
from cmsfs.client.history import carrying_out, gathering
from cmsfs.client.history.restore_plan import RestorePlan
from cmsfs.client.history.undo_log import UndoLog
from cmsfs.ipc import attention, control, outcomes
from cmsfs.user_messages import explain

_SHOWN = 20
_SAYS = {
    "contents": "contents of before",
    "place": "name and place of before",
    "deletion": "there again",
    "new": "removed from the drive",
    "times": "as the service has it",
}
_AT_SERVICE = {
    "trash": "to the trash",
    "restore": "from the trash",
    "promote": "version of before",
    "place": "name and place of before",
}


@click.command()
@click.argument("answer", type=click.Choice(["allow", "undo"]), required=False)
@click.option("--yes", is_flag=True, help="With undo: do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="With undo: only show what would be taken back.")
@output.json_option
@context.pass_context
def guard(ctx: context.Context, *, answer: str | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Show what the guard has noticed; `allow` uploads it, `undo` takes it back.

    When a program encrypts, renames or deletes many files in a short time, nothing more is uploaded or
    deleted at the service until you have decided.  The limits are the settings guard_files and
    guard_deletions.  With undo the files that the program changed, renamed and deleted since are as they were
    before, and those that it made are gone, once you have seen the list.
    """
    daemon = daemonctl.require(ctx.account, ctx.settings())
    if answer == "allow":
        done = daemonctl.carry_out(daemon, control.AllowChanges())
        output.say(done.message or "The changes are uploaded now.")
        return
    if answer == "undo":
        trio.run(_undo, ctx.settings(), daemon, yes, dry_run, as_json)
        if not dry_run:
            daemonctl.poll_drive(ctx.account, ctx.settings())
        return
    found = daemonctl.ask(daemon, control.GetConflicts(), control.Conflicts).guard
    if as_json:
        output.document(None if found is None else found.model_dump(mode="json"))
    elif found is None:
        output.say("Nothing was noticed; changes are uploaded.")
    else:
        _show(found)


def _show(found: attention.GuardNotice) -> None:
    output.say(f"{found.sentence} That began {output.ago(found.since)}:")
    output.table(
        [
            [one.name or "unknown", f"process {one.pid}", output.plural(one.files, "file")]
            for one in found.programs
        ],
        indent="  ",
    )
    output.say(f"{output.plural(found.waiting, 'change')} held; nothing more is uploaded or deleted.")
    program = output.command()
    output.say(f"If that was meant: `{program} guard allow`.")
    output.say(
        f"If not, end the program, then `{program} guard undo`: it shows what is taken back, and asks."
    )


# ---- undo ----------------------------------------------------------------------------


async def _undo(
    settings: config.Settings, daemon: daemonctl.Daemon, yes: bool, dry_run: bool, as_json: bool
) -> None:
    seen = _ask(daemon, dry_run=True)
    if seen.running and not dry_run:
        raise errors.UserError(f"End {' and '.join(seen.running)} first.")
    try:
        async with connect.open_backend(settings) as client:
            past = await _reached(settings, client, seen)
            await _carry_out(settings, daemon, seen, past, yes=yes, dry_run=dry_run, as_json=as_json)
    except errors.RemoteError as error:
        output.complain(f"What has reached the service cannot be looked at: {explain(error).message}")
        moment = seen.since.astimezone().isoformat(timespec="milliseconds") if seen.since else "TIME"
        output.complain(f"Later: `{output.command()} restore {seen.folder} --as-of {moment}`.")
        await _carry_out(settings, daemon, seen, None, yes=yes, dry_run=dry_run, as_json=as_json)


def _ask(daemon: daemonctl.Daemon, *, dry_run: bool) -> outcomes.GuardUndone:
    return daemonctl.ask(daemon, control.UndoChanges(dry_run=dry_run), control.GuardUndone)


async def _reached(
    settings: config.Settings, client: session.Client, seen: outcomes.GuardUndone
) -> gathering.PastOfItems | None:
    """Load past and current states of the changed items at the service; None if it does not report them."""
    profile = config.profile(settings)
    if profile.feed != "events" or not profile.trash or seen.since is None:
        return None
    past = gathering.PastOfItems(client, seen.items, seen.since)
    await past.load()
    return past


async def _carry_out(
    settings: config.Settings,
    daemon: daemonctl.Daemon,
    seen: outcomes.GuardUndone,
    past: gathering.PastOfItems | None,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    plan = past.plan() if past is not None else RestorePlan()
    if not as_json and (dry_run or not yes):
        _preview(seen, plan, is_all=dry_run)
    if dry_run:
        if as_json:
            output.document(_document(seen, plan))
        return
    if not yes and not output.confirm("Take this back?"):
        raise errors.UserError("Nothing was taken back.")
    done = _ask(daemon, dry_run=False)
    executor = None
    if past is not None and plan.steps:
        paths = config.Paths(settings.account)
        paths.ensure()
        log = UndoLog(paths.state / "restore.undo")
        async with connect.open_backend(settings) as client:
            with log.begin("guard") as file, progress.counted("restoring", len(plan.steps)) as bar:
                executor = carrying_out.PlanExecutor(client, file, bar)
                await executor.restore_past(past)
                log.end(file)
    _report(done, executor, as_json=as_json)


def _preview(seen: outcomes.GuardUndone, plan: RestorePlan, *, is_all: bool) -> None:
    lines = [[one.path, _SAYS[one.action]] for one in seen.changes if not one.reason]
    lines += [[step.name, f"{_AT_SERVICE[step.action]} (at the service)"] for step in plan.steps]
    lines += [[name, f"stays: {why}"] for _, name, why in plan.unknown]
    stays = [[one.path, f"stays: {one.reason}"] for one in seen.changes if one.reason]
    if not lines and not stays:
        output.say("There is nothing to take back.")
    # Changes that cannot be undone are always shown.
    shown = lines if is_all else lines[:_SHOWN]
    output.table([*shown, *stays], indent="  ")
    if len(lines) > len(shown):
        output.note(
            f"and {len(lines) - len(shown):,} more; `{output.command()} guard undo --dry-run` shows all"
        )


def _document(seen: outcomes.GuardUndone, plan: RestorePlan) -> dict[str, object]:
    steps = [{"action": step.action, "id": step.key[1], "name": step.name} for step in plan.steps]
    changes = [one.model_dump(mode="json") for one in seen.changes]
    return {"changes": changes, "at_service": steps, "kept": seen.kept}


def _report(done: outcomes.GuardUndone, executor: carrying_out.PlanExecutor | None, *, as_json: bool) -> None:
    stays = [one for one in done.changes if one.reason]
    count = len(done.changes) - len(stays)
    if as_json:
        output.document(_document(done, RestorePlan(executor.done if executor is not None else [])))
    else:
        output.say(
            f"{output.plural(count, 'change')} taken back; uploads {'stay held' if stays else 'go on'}."
        )
        if executor is not None and executor.done:
            made = output.plural(len(executor.done), "change")
            output.say(f"{made} made at the service; `{output.command()} restore --undo` takes these back.")
        if done.kept:
            output.say(f"What the files said is kept in {done.kept}, until you delete it.")
    for one in stays:
        output.complain(f"{one.path} stays: {one.reason}")
    for step, error in executor.refused if executor is not None else []:
        output.complain(f"{step.name} stays at the service: {explain(error).message}")
    if stays or (executor is not None and executor.refused):
        raise errors.UserError("")
