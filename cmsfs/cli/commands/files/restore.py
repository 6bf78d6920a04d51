"""`cmsfs restore`: restores a folder to its state at a time, as one set of changes that can be undone.

It calls the service directly, so it works without a mounted drive; a mounted drive is told to poll for
changes.

Rule: nothing is changed before the whole plan was shown, and nothing is permanently deleted.
"""

from datetime import datetime

import click
import trio
from click.shell_completion import CompletionItem

from cmsfs import config, errors, output
from cmsfs.auth import connect
from cmsfs.cli.commands.files import restore_preview
from cmsfs.cli.commands.files.restore_preview import ItemPaths
from cmsfs.cli.support import context, daemonctl, path_argument, progress
from cmsfs.client import remote_paths, session
from cmsfs.client.history import as_of, carrying_out, facts, gathering, moments, restore_plan
from cmsfs.client.history.undo_log import UndoLog
from cmsfs.runtime import clock, threads
from cmsfs.user_messages import explain


class _PastMoment(click.ParamType[datetime]):
    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return moments.parse(str(value))
        except ValueError as error:
            raise click.BadParameter(f"{error}.", ctx, param) from None

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        examples = ("10m", "1h", "2h", "1d", "1w", "yesterday", f"{clock.datetime_now():%Y-%m-%dT%H:00}")
        return [CompletionItem(one) for one in examples if one.startswith(incomplete)]


@click.command()
@click.argument("remote", type=path_argument.PATH, required=False)
@click.option(
    "--as-of", "moment", type=_PastMoment(), help="When: 2h, yesterday, 2026-11-20, 2026-11-20T14:00."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--undo", is_flag=True, help="Take the last restore back.")
@output.json_option
@context.pass_context
def restore(
    ctx: context.Context,
    remote: str | None,
    *,
    moment: datetime | None,
    yes: bool,
    dry_run: bool,
    undo: bool,
    as_json: bool,
) -> None:
    """Bring the folder REMOTE back to what it was at a time: names, places and contents.

    What was changed gets its earlier version, what was moved or renamed goes back, what was deleted comes out
    of the trash, and what is new goes there.  All is shown first, also what cannot be known.
    """
    wrong = click.UsageError("Give a folder and --as-of TIME, or --undo alone.")
    if undo and (remote is not None or moment is not None):
        raise wrong
    settings = ctx.settings()
    profile = config.profile(settings)
    if profile.feed != "events" or not profile.trash:
        raise errors.UserError("This service tells neither events nor its trash, so the past is not known.")
    if undo:
        trio.run(_undo, settings, yes, dry_run, as_json)
    elif remote is None or moment is None:
        raise wrong
    else:
        trio.run(_restore, settings, remote, moment, yes, dry_run, as_json)
    if not dry_run:
        daemonctl.poll_drive(ctx.account, settings)


async def _restore(
    settings: config.Settings, remote: str, moment: datetime, yes: bool, dry_run: bool, as_json: bool
) -> None:
    above = remote_paths.normal(remote).rstrip("/")
    log = _undo_log(settings)
    async with connect.open_backend(settings) as client:
        number, first, now = await _find(client, settings, above, moment)
        done = []
        if first.steps:
            if dry_run or not yes:
                here = {key: above if key[1] != number else state.name for key, state in now.items()}
                paths = ItemPaths(then=dict.fromkeys(now, above), now=here)
                restore_preview.show(first, paths, as_json=dry_run and as_json, is_all=True)
            if dry_run:
                output.note("What was in it then, and is not now, is seen when it is back.")
                return
            if not yes:
                await threads.run_sync(_confirm, f"Bring {above} back with what is in it")
            with log.begin(number) as file, progress.counted("restoring", len(first.steps)) as bar:
                executor = carrying_out.PlanExecutor(client, file, bar)
                await executor.execute_in_order(first, now)
            if executor.refused:
                _report(executor, restore_plan.RestorePlan(), as_json=as_json)
            done = executor.done
        past = gathering.PastOfFolder(client, number, moment)
        await past.load()
        plan = past.plan()
        paths = ItemPaths.of(past, above)
        if dry_run or not (plan.steps or done):
            restore_preview.show(plan, paths, as_json=as_json, is_all=True)
            if plan.steps:
                output.note("Nothing was changed; `cmsfs restore --undo` could take all of this back.")
            return
        if plan.steps and not yes:
            restore_preview.show(plan, paths, as_json=False, is_all=False)
            output.note("`cmsfs restore --undo` can take all of this back.")
            question = f"Bring {above or '/'} back to {moment:%Y-%m-%d %H:%M:%S}"
            await threads.run_sync(_confirm, question, "What is in it was left as it is." if done else "")
        with log.begin(number) as file, progress.counted("restoring", len(plan.steps)) as bar:
            executor = carrying_out.PlanExecutor(client, file, bar)
            plan = await executor.restore_past(past)
            log.end(file)
        executor.done[:0] = done
        _report(executor, plan, as_json=as_json)


async def _find(
    client: session.Client, settings: config.Settings, path: str, moment: datetime
) -> tuple[str, restore_plan.RestorePlan, dict[as_of.Key, as_of.ItemState]]:
    """Find the folder that was at a path; return it with the steps that move it back, none if it is there."""
    lookup = remote_paths.RemotePaths(client, settings)
    nothing = restore_plan.RestorePlan()
    found = await lookup.find(path)
    in_the_way: as_of.ItemState | None = None
    if found is not None:
        here = facts.state_of(await client.items.get(found.type, found.id))
        if here.created is None or here.created <= moment:
            return (await lookup.get_folder(path)).id, nothing, {}
        in_the_way = here
    above, _, name = path.rpartition("/")
    parent = await lookup.get_folder(above)
    then = await gathering.find_past_folder(client, parent.id, name, moment) if path else None
    if then is None or then.now is None:
        if found is None:
            raise errors.UserError(
                f"There is no {path} on the service, and none that was there at that time is known."
            )
        number = (await lookup.get_folder(path)).id
        if in_the_way is not None and in_the_way.created is not None:
            # All of it would go to the trash, which nobody means who asks for an earlier time.
            made = f"{in_the_way.created.astimezone():%Y-%m-%d %H:%M:%S}"
            raise errors.UserError(f"{path or '/'} was not there at that time; it was made at {made}.")
        return number, nothing, {}
    now = {then.key: then.now}
    if in_the_way is not None:
        now[in_the_way.key] = in_the_way
    plan = restore_plan.folder_plan(then, in_the_way.key if in_the_way is not None else None)
    return then.key[1], plan, now


async def _undo(settings: config.Settings, yes: bool, dry_run: bool, as_json: bool) -> None:
    log = _undo_log(settings)
    before = list(log.read())
    if not before:
        raise errors.UserError("There is no restore to undo.")
    async with connect.open_backend(settings) as client:
        plan, now = await carrying_out.undo_plan(client, before)
        if dry_run or not plan.steps:
            restore_preview.show(plan, ItemPaths(), as_json=as_json, is_all=True)
            return
        if not yes:
            restore_preview.show(plan, ItemPaths(), as_json=False, is_all=False)
            await threads.run_sync(_confirm, "Undo the last restore")
        with progress.counted("undoing", len(plan.steps)) as bar:
            executor = carrying_out.PlanExecutor(client, None, bar)
            await executor.execute(plan, now)
        _report(executor, restore_plan.RestorePlan(), as_json=as_json)
    log.forget()


def _undo_log(settings: config.Settings) -> UndoLog:
    paths = config.Paths(settings.account)
    paths.ensure()
    return UndoLog(paths.state / "restore.undo")


def _confirm(question: str, left: str = "") -> None:
    if not output.confirm(question):
        raise errors.UserError(left or "Nothing was changed.")


def _report(executor: carrying_out.PlanExecutor, left: restore_plan.RestorePlan, *, as_json: bool) -> None:
    if as_json:
        shown, nothing = restore_preview.step_as_json, ItemPaths()
        refused = [{**shown(step, nothing), "reason": explain(why).message} for step, why in executor.refused]
        output.document({"done": [shown(step, nothing) for step in executor.done], "refused": refused})
    else:
        output.say(f"{output.plural(len(executor.done), 'change')} made; `restore --undo` takes this back.")
        for _, name, why in left.unknown:
            output.note(f"{name}: {why}")
    for step, error in executor.refused:
        output.complain(f"{step.name} stays: {explain(error).message}")
    if executor.refused:
        raise errors.UserError("")
