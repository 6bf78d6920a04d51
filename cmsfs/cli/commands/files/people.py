"""`cmsfs people` and `invite`: list, end and create collaborations on a file or folder.

They call the service directly, so they work without a mounted drive.
"""

from datetime import UTC, datetime, timedelta
from typing import cast

import click

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, durations, path_argument
from cmsfs.client import people as people_of
from cmsfs.client import remote_paths
from cmsfs.client.enterprise.collaborations import Kind
from cmsfs.client.session import Client
from cmsfs.models.content import items
from cmsfs.models.enterprise import collaborations
from cmsfs.runtime import clock


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.argument("person", nargs=-1, required=True)
@click.option(
    "--role",
    type=click.Choice(list(people_of.ROLES)),
    default="viewer",
    show_default=True,
    help="What they may do.",
)
@click.option("--expires", type=durations.Duration(), help="End it after this time, for example 30d.")
@output.json_option
@context.pass_context
def invite(
    ctx: context.Context,
    remote: str,
    person: tuple[str, ...],
    *,
    role: str,
    expires: float | None,
    as_json: bool,
) -> None:
    """Share REMOTE, a file or folder, with each PERSON: the email address or ID that they log in with.

    Who collaborates on it already gets the role.
    """
    ends = None if expires is None else clock.datetime_now(UTC) + timedelta(seconds=expires)
    wish = cast(collaborations.Role, people_of.ROLES[role])
    done = asking.run(_invite, ctx, remote, person, wish, ends)
    if as_json:
        output.document([_document(one) for one in done])
        return
    for one in done:
        waits = "; it waits for an answer" if one.status == collaborations.PENDING else ""
        output.say(f"{people_of.name(one)}: {one.role}{waits}")


async def _invite(
    ctx: context.Context,
    remote: str,
    people: tuple[str, ...],
    role: collaborations.Role,
    ends: datetime | None,
) -> list[collaborations.Collaboration]:
    async with connect.open_backend(ctx.settings()) as client:
        kind, found = await _item(client, ctx, remote)
        return await people_of.invite(client, kind, found.id, people, role, ends)


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.option(
    "--remove",
    multiple=True,
    metavar="PERSON",
    help="End the collaboration of this person (email address or ID).",
)
@output.json_option
@context.pass_context
def people(ctx: context.Context, remote: str, *, remove: tuple[str, ...], as_json: bool) -> None:
    """List who collaborates on REMOTE, a file or folder, and who is invited to.

    The owner is not listed; whoever has a role by a folder above is, with that folder.
    """
    item, found = asking.run(_people, ctx, remote, remove)
    if as_json:
        output.document([_document(one) for one in found])
        return
    if not found:
        owner = item.owned_by.name or item.owned_by.login if item.owned_by else None
        output.say(f"Nobody but {owner or 'the owner'} collaborates on {remote_paths.normal(remote)}.")
        return
    output.table([_row(one, item) for one in found])


async def _people(
    ctx: context.Context, remote: str, remove: tuple[str, ...]
) -> tuple[items.File | items.Folder, list[collaborations.Collaboration]]:
    async with connect.open_backend(ctx.settings()) as client:
        kind, item = await _item(client, ctx, remote)
        found = [one async for one in client.collaborations.of(kind, item.id)]
        for person in remove:
            ended = next(
                (
                    one
                    for one in found
                    if people_of.is_person(one, person) and people_of.is_direct(one, item.id)
                ),
                None,
            )
            if ended is None:
                raise errors.UserError(_no_such(person, found, remote))
            await client.collaborations.delete(ended.id)
            found.remove(ended)
        return item, found


def _no_such(person: str, found: list[collaborations.Collaboration], remote: str) -> str:
    inherited = next((one for one in found if people_of.is_person(one, person)), None)
    if inherited is not None and inherited.item:
        above = inherited.item.get("name")
        return f"{person} collaborates by the folder {above} above; end it there."
    return f"{person} does not collaborate on {remote_paths.normal(remote)}."


async def _item(client: Client, ctx: context.Context, remote: str) -> tuple[Kind, items.File | items.Folder]:
    found = await remote_paths.RemotePaths(client, ctx.settings()).get(remote)
    if isinstance(found, items.WebLink):
        raise errors.UserError(f"{remote_paths.normal(remote)} is a web link; files and folders have people.")
    if found.id == remote_paths.ROOT_ID:
        raise errors.UserError("The whole drive has no collaborators; name a file or folder of it.")
    return ("file" if isinstance(found, items.File) else "folder"), found


def _row(one: collaborations.Collaboration, item: items.File | items.Folder) -> list[str]:
    return [people_of.name(one), one.role or "", people_of.notes(one, item.id)]


def _document(one: collaborations.Collaboration) -> dict[str, object]:
    return one.model_dump(mode="json", exclude_none=True)
