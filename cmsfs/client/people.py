"""People of an item: whom a person means by an address or ID, and what they are shown as.

Rule: who collaborates already gets the role that is asked for, and no second invitation; what comes from a
folder above is ended there.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from cmsfs import errors
from cmsfs.client.enterprise.collaborations import Kind
from cmsfs.client.session import Client
from cmsfs.models.enterprise import collaborations

# As commands and pages write them.
ROLES = {role.replace(" ", "-"): role for role in get_args(collaborations.Role)}


async def invite(
    client: Client,
    kind: Kind,
    item_id: str,
    people: Iterable[str],
    role: collaborations.Role,
    ends: datetime | None,
) -> list[collaborations.Collaboration]:
    """Share an item with each of these people.  Raises `UserError` for one that there is not."""
    known = [one async for one in client.collaborations.of(kind, item_id)]
    done = []
    for person in people:
        there = next((one for one in known if is_person(one, person) and is_direct(one, item_id)), None)
        if there is None:
            done.append(await _create(client, kind, item_id, person, role, ends))
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


def is_person(one: collaborations.Collaboration, person: str) -> bool:
    """Whether a collaboration is that of this person, by address or ID."""
    key = person.casefold()
    whom = one.accessible_by
    names = [one.invite_email, whom.id if whom else None, getattr(whom, "login", None)]
    return key in {name.casefold() for name in names if name}


def is_direct(one: collaborations.Collaboration, item_id: str) -> bool:
    """Whether it is of this item and not of a folder above."""
    return one.item is None or one.item.get("id") in (None, item_id)


def name(one: collaborations.Collaboration) -> str:
    """Whose it is, in words."""
    whom = one.accessible_by
    login = getattr(whom, "login", None) or one.invite_email
    known = whom.name if whom else None
    return f"{known} <{login}>" if known and login else known or login or "?"


def notes(one: collaborations.Collaboration, item_id: str) -> str:
    """What there is to say beside the role."""
    waits = "invited" if one.status == collaborations.PENDING else ""
    above = f"by {one.item.get('name')}" if one.item and not is_direct(one, item_id) else ""
    ends = f"until {one.expires_at.astimezone():%Y-%m-%d}" if one.expires_at else ""
    return " ".join(word for word in (waits, above, ends) if word)
