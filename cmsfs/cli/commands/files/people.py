"""`cmsfs people` and `invite`: who collaborates on a file or folder.

Straight through the client, so they work without a drive, too.

Rule: who collaborates already gets the role that is asked for, and no second invitation; what comes from a
folder above is shown with that folder, and ended there.
"""

from datetime import UTC, datetime, timedelta
from typing import cast, get_args

import click

from cmsfs import errors, output
from cmsfs.auth import connect
from cmsfs.cli.support import asking, context, durations, path_argument
from cmsfs.client import remote_paths
from cmsfs.client.enterprise.collaborations import Kind
from cmsfs.client.session import Client
from cmsfs.models.content import items
from cmsfs.models.enterprise import collaborations

ROLES = {role.replace(" ", "-"): role for role in get_args(collaborations.Role)}


@click.command()
@click.argument("remote", type=path_argument.PATH)
@click.argument("person", nargs=-1, required=True)
@click.option(
    "--role", type=click.Choice(list(ROLES)), default="viewer", show_default=True, help="What they may do."
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
    ends = None if expires is None else datetime.now(UTC) + timedelta(seconds=expires)
    wish = cast(collaborations.Role, ROLES[role])
    done = asking.run(_invite, ctx, remote, person, wish, ends)
    if as_json:
        output.document([_document(one) for one in done])
        return
    for one in done:
        waits = "; it waits for an answer" if one.status == collaborations.PENDING else ""
        output.say(f"{_name(one)}: {one.role}{waits}")


async def _invite(
    ctx: context.Context,
    remote: str,
    people: tuple[str, ...],
    role: collaborations.Role,
    ends: datetime | None,
) -> list[collaborations.Collaboration]:
    async with connect.open_backend(ctx.settings()) as client:
        kind, found = await _item(client, ctx, remote)
        known = [one async for one in client.collaborations.of(kind, found.id)]
        done = []
        for person in people:
            there = next((one for one in known if _is(one, person) and _is_direct(one, found)), None)
            if there is None:
                done.append(await _create(client, kind, found.id, person, role, ends))
                continue
            wish: dict[str, object] = {} if there.role == role else {"role": role}
            if ends is not None:
                wish["expires_at"] = ends
            if wish:
                change = collaborations.UpdateCollaboration.model_validate(wish)
                there = await client.collaborations.update(there.id, change)
            done.append(there)
        return done


async def _create(
    client: Client,
    kind: Kind,
    item_id: str,
    person: str,
    role: collaborations.Role,
    ends: datetime | None,
) -> collaborations.Collaboration:
    login, number = (person, None) if "@" in person else (None, person)
    try:
        return await client.collaborations.create(
            kind, item_id, role, login=login, user_id=number, expires_at=ends
        )
    except errors.NotFound as error:
        raise errors.UserError(f"There is nobody to invite as {person}.") from error


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
            ended = next((one for one in found if _is(one, person) and _is_direct(one, item)), None)
            if ended is None:
                raise errors.UserError(_no_such(person, found, remote))
            await client.collaborations.delete(ended.id)
            found.remove(ended)
        return item, found


def _no_such(person: str, found: list[collaborations.Collaboration], remote: str) -> str:
    inherited = next((one for one in found if _is(one, person)), None)
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


def _is(one: collaborations.Collaboration, person: str) -> bool:
    key = person.casefold()
    whom = one.accessible_by
    names = [one.invite_email, whom.id if whom else None, getattr(whom, "login", None)]
    return key in {name.casefold() for name in names if name}


def _is_direct(one: collaborations.Collaboration, item: items.File | items.Folder) -> bool:
    """Whether it is of this item and not of a folder above."""
    return one.item is None or one.item.get("id") in (None, item.id)


def _name(one: collaborations.Collaboration) -> str:
    whom = one.accessible_by
    login = getattr(whom, "login", None) or one.invite_email
    name = whom.name if whom else None
    return f"{name} <{login}>" if name and login else name or login or "?"


def _row(one: collaborations.Collaboration, item: items.File | items.Folder) -> list[str]:
    ends = f"until {one.expires_at.astimezone():%Y-%m-%d}" if one.expires_at else ""
    waits = "invited" if one.status == collaborations.PENDING else ""
    above = f"by {one.item.get('name')}" if one.item and not _is_direct(one, item) else ""
    return [_name(one), one.role or "", " ".join(word for word in (waits, above, ends) if word)]


def _document(one: collaborations.Collaboration) -> dict[str, object]:
    return one.model_dump(mode="json", exclude_none=True)
