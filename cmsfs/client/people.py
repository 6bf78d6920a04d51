"""The collaborators of an item: finds them by email address or user ID, invites and displays them.

Rule: an existing collaborator gets the requested role instead of a second invitation; an inherited
collaboration is ended at the folder that it comes from.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from cmsfs import errors
from cmsfs.client.enterprise.collaborations import Kind
from cmsfs.client.session import Client
from cmsfs.models.enterprise import collaborations

# Role names as commands and pages write them.
ROLES = {role.replace(" ", "-"): role for role in get_args(collaborations.Role)}


async def invite(
    client: Client,
    kind: Kind,
    item_id: str,
    people: Iterable[str],
    role: collaborations.Role,
    ends: datetime | None,
) -> list[collaborations.Collaboration]:
    """Share an item with each of these people.  Raises `UserError` for an unknown one."""
    known = [one async for one in client.collaborations.of(kind, item_id)]
    done = []
    for person in people:
        existing = next((one for one in known if is_person(one, person) and is_direct(one, item_id)), None)
        if existing is None:
            done.append(await _create(client, kind, item_id, person, role, ends))
            continue
        changes: dict[str, object] = {} if existing.role == role else {"role": role}
        if ends is not None:
            changes["expires_at"] = ends
        if changes:
            update = collaborations.UpdateCollaboration.model_validate(changes)
            existing = await client.collaborations.update(existing.id, update)
        done.append(existing)
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


def is_person(one: collaborations.Collaboration, person: str) -> bool:
    """Whether a collaboration belongs to this person, given by email address or ID."""
    key = person.casefold()
    whom = one.accessible_by
    names = [one.invite_email, whom.id if whom else None, getattr(whom, "login", None)]
    return key in {name.casefold() for name in names if name}


def is_direct(one: collaborations.Collaboration, item_id: str) -> bool:
    """Whether the collaboration is on this item itself, not inherited from a folder above."""
    return one.item is None or one.item.get("id") in (None, item_id)


def name(one: collaborations.Collaboration) -> str:
    """Return the collaborator's display name."""
    whom = one.accessible_by
    login = getattr(whom, "login", None) or one.invite_email
    known = whom.name if whom else None
    return f"{known} <{login}>" if known and login else known or login or "?"


def notes(one: collaborations.Collaboration, item_id: str) -> str:
    """Return status, origin and expiry, as shown beside the role."""
    invited = "invited" if one.status == collaborations.PENDING else ""
    origin = f"by {one.item.get('name')}" if one.item and not is_direct(one, item_id) else ""
    expiry = f"until {one.expires_at.astimezone():%Y-%m-%d}" if one.expires_at else ""
    return " ".join(word for word in (invited, origin, expiry) if word)
