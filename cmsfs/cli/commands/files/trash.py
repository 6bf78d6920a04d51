"""`cmsfs trash`: lists, restores and permanently deletes items in the trash.

It calls the service directly, so it works without a mounted drive; a mounted drive is told to poll for
changes.

Rule: nothing is permanently deleted without confirmation, and an ambiguous name is an error, never a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import click
import trio

from cmsfs import config, errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import context, daemonctl, progress
from cmsfs.client import remote_paths, session
from cmsfs.client.content import search
from cmsfs.client.content import trash as client_trash
from cmsfs.models.content import items
from cmsfs.models.content import search as models_search
from cmsfs.runtime import threads
from cmsfs.user_messages import explain

GONE = "(gone)"

# Parallel deletions when the trash is emptied: the service locks the tree for each.
AT_ONCE = 4

_WORDS = {"file": "file", "folder": "folder", "web_link": "link"}


@dataclass(frozen=True, slots=True)
class Trashed:
    """An item in the trash, and where it was."""

    item: remote_paths.Found
    path: str

    @property
    def title(self) -> str:
        return f"{self.path} (id {self.item.id})"


@click.group()
def trash() -> None:
    """List, restore and permanently delete items in the trash.

    The drive also shows the trash as the folder `.trash`; moving an item out restores it.
    """


@trash.command("list")
@output.json_option
@context.pass_context
def list_(ctx: context.Context, *, as_json: bool) -> None:
    """List items in the trash, the most recently deleted first."""

    async def work() -> list[Trashed]:
        settings = ctx.settings()
        async with connect.open_backend(settings) as client:
            return await _placed(client, await _found(client, settings))

    found = sorted(trio.run(work), key=lambda one: str(one.item.trashed_at or ""), reverse=True)
    if as_json:
        output.document([_json(one) for one in found])
    elif found:
        output.table([_row(one) for one in found])
    else:
        output.note("The trash is empty.")


@trash.command("restore")
@click.argument("names", nargs=-1, required=True, metavar="ITEM...")
@click.option("--name", metavar="NAME", help="Restore under this name (one item only).")
@click.option("--to", metavar="REMOTE", help="Restore into this folder, for example /Documents.")
@output.json_option
@context.pass_context
def restore(
    ctx: context.Context, names: tuple[str, ...], *, name: str | None, to: str | None, as_json: bool
) -> None:
    """Restore items to their original location: ITEM is a name, the original path, or an ID.

    An item whose folder is gone is restored to the folder given by --to.
    """
    if name is not None and len(names) > 1:
        raise click.UsageError("--name takes exactly one item.")

    async def work() -> list[tuple[remote_paths.Found, str]]:
        settings = ctx.settings()
        async with connect.open_backend(settings) as client:
            target = await remote_paths.RemotePaths(client, settings).get_folder(to) if to else None
            known = await _placed(client, await _found(client, settings))
            chosen = [_chosen(known, one) for one in names]
            back = []
            for one in chosen:
                item = await _restore(client, config.profile(settings), one, name, target)
                back.append((item, await _path(client, item)))
            return back

    restored = trio.run(work)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    if as_json:
        output.document([{**_dump(item), "path": path} for item, path in restored])
    for _, path in restored if not as_json else []:
        output.say(f"Restored {path}.")


@trash.command("purge")
@click.argument("names", nargs=-1, required=True, metavar="ITEM...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
@context.pass_context
def purge(ctx: context.Context, names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Permanently delete items from the trash: ITEM is a name, the original path, or an ID."""
    _remove(ctx, names, yes=yes, as_json=as_json)


@trash.command("empty")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@output.json_option
@context.pass_context
def empty(ctx: context.Context, *, yes: bool, as_json: bool) -> None:
    """Empty the trash: permanently delete everything that no hold or retention policy protects."""
    _remove(ctx, None, yes=yes, as_json=as_json)


def _remove(ctx: context.Context, names: Sequence[str] | None, *, yes: bool, as_json: bool) -> None:
    refused: list[tuple[Trashed, str]] = []

    async def work() -> list[Trashed]:
        settings = ctx.settings()
        if not config.profile(settings).trash:
            raise errors.UserError("This service's API cannot delete permanently; use its web pages.")
        async with connect.open_backend(settings) as client:
            known = await _placed(client, await _found(client, settings))
            chosen = known if names is None else [_chosen(known, one) for one in names]
            if not yes and chosen:
                # A thread: the question may stay open for as long as a lunch.
                await threads.run_sync(_confirm, chosen)
            return await _purge(client, chosen, refused)

    gone = trio.run(work)
    daemonctl.poll_drive(ctx.account, ctx.settings())
    if as_json:
        stay = [{**_json(one), "reason": reason} for one, reason in refused]
        output.document({"removed": [_json(one) for one in gone], "refused": stay})
    elif names is None and not gone and not refused:
        output.say("The trash is empty.")
    elif gone:
        what = gone[0].path if len(gone) == 1 else output.plural(len(gone), "item")
        output.say(f"{what} {'was' if len(gone) == 1 else 'were'} permanently deleted.")
    for one, reason in refused:
        output.complain(f"{one.title} stays: {reason}")
    if refused:
        raise errors.UserError("")


def _confirm(chosen: Sequence[Trashed]) -> None:
    for one in chosen[:20]:
        output.note(one.title)
    if len(chosen) > 20:
        output.note(f"and {len(chosen) - 20:,} more")
    if not output.confirm("Delete permanently? This cannot be undone"):
        raise errors.UserError("Nothing was deleted.")


async def _purge(
    client: session.Client, chosen: Sequence[Trashed], refused: list[tuple[Trashed, str]]
) -> list[Trashed]:
    gone: list[Trashed] = []
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(found: Trashed) -> None:
        async with limit:
            try:
                await client.items.purge(found.item.type, found.item.id)
            except errors.NotFound:
                pass  # somebody else was quicker
            except errors.ApiError as error:
                refused.append((found, explain(error).message))
                return
            gone.append(found)
            bar(len(gone))

    with progress.counted("removing", len(chosen)) as bar:
        async with trio.open_nursery() as nursery:
            for found in chosen:
                nursery.start_soon(one, found)
    return gone


async def _found(client: session.Client, settings: config.Settings) -> list[remote_paths.Found]:
    """Return everything in the trash, by its listing or, if the service has none, by search."""
    if config.profile(settings).trash:
        return [item async for item in client.trash.items()]
    query = models_search.Query(
        query=search.EVERYTHING,
        trash_content="trashed_only",
        fields=list(client_trash.TRASH_FIELDS),
        limit=models_search.MAX_LIMIT,
    )
    return [item async for item in client.search.entries(query)]


async def _placed(client: session.Client, found: Sequence[remote_paths.Found]) -> list[Trashed]:
    """Return the items with their original paths; one request for each folder."""
    folders: dict[str, str] = {remote_paths.ROOT_ID: ""}
    limit = trio.CapacityLimiter(AT_ONCE)

    async def look(folder_id: str) -> None:
        async with limit:
            try:
                folders[folder_id] = (await client.folders.path(folder_id)).rstrip("/")
            except errors.ApiError:
                pass  # deleted, in the trash itself, or not accessible

    async with trio.open_nursery() as nursery:
        for folder_id in {item.parent.id for item in found if item.parent} - folders.keys():
            nursery.start_soon(look, folder_id)
    placed = []
    for item in found:
        above = folders.get(item.parent.id, GONE) if item.parent else GONE
        placed.append(Trashed(item, f"{above}/{item.name}"))
    return placed


async def _path(client: session.Client, item: remote_paths.Found) -> str:
    return (await _placed(client, [item]))[0].path


def _chosen(known: Sequence[Trashed], given: str) -> Trashed:
    """Return the item that an argument names.  Raises `UserError` if there is none, or several."""
    path, last = remote_paths.normal(given), given.rsplit("/", 1)[-1]
    is_name = "/" not in given or "/.trash/" in f"/{given}"
    for found in (
        [one for one in known if one.path == path],
        [one for one in known if one.item.id == given],
        [one for one in known if is_name and one.item.name == last],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(one.item.id for one in found)
            raise errors.UserError(f"{given} could be several items; name one by its id: {ids}.", exit_code=2)
    raise errors.UserError(
        f"There is no {given!r} in the trash; `{output.command()} trash list` lists its items."
    )


async def _restore(
    client: session.Client,
    profile: config.Profile,
    one: Trashed,
    name: str | None,
    target: items.Folder | None,
) -> remote_paths.Found:
    """Restore an item, and move it if the service restored it elsewhere.  Raises `UserError`."""
    item, wished = one.item, None if target is None else target.id
    try:
        if not profile.trash and not isinstance(item, items.WebLink):
            raise errors.UserError(
                "This service's API restores web links only; use its web pages for other items."
            )
        back = await client.items.restore(item.type, item.id, name=name, parent_id=wished)
    except errors.Conflict:
        raise errors.UserError(
            f"{one.title} cannot be restored: its name is taken there; choose another with --name."
        ) from None
    except errors.NotFound:
        raise errors.UserError(f"{one.title} is no longer in the trash.") from None
    except errors.Forbidden as error:
        remedy = "" if target else "; if its folder is gone, choose another with --to"
        reason = (error.message or error.code).rstrip(".")
        raise errors.UserError(f"{one.title} cannot be restored: {reason}{remedy}.") from None
    if target is None or (back.parent is not None and back.parent.id == target.id):
        return back
    if not profile.trash:
        where = await _path(client, back)
        raise errors.UserError(f"Restored to {where}: its original folder exists and takes precedence.")
    return await client.items.update(back.type, back.id, parent_id=target.id)


def _row(one: Trashed) -> list[str]:
    item = one.item
    size = "" if isinstance(item, items.WebLink) else output.size(int(item.size or 0))
    when = item.trashed_at.astimezone().strftime("%Y-%m-%d %H:%M") if item.trashed_at else ""
    by = (item.modified_by.name or item.modified_by.login or "") if item.modified_by else ""
    return [item.id, _WORDS[item.type], size.rjust(8), when, by, one.path]


def _json(one: Trashed) -> dict[str, object]:
    return {**_dump(one.item), "original_path": one.path}


def _dump(item: remote_paths.Found) -> dict[str, object]:
    answer: dict[str, object] = item.model_dump(mode="json", exclude_unset=True)
    return answer
