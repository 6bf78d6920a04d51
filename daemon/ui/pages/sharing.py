"""The sharing of a file or folder: its shared link with the link's settings, and its collaborators."""

from datetime import UTC, date, datetime, time, timedelta
from typing import cast

from starlette import responses

from cmsfs import errors
from cmsfs.client import people
from cmsfs.models.content import items
from cmsfs.models.enterprise import collaborations
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.runtime import clock
from daemon.content.item_sharing import ItemSharing
from daemon.fetch import path_lookup
from daemon.ui.desk import Form, Page, PageDesk, said

# Who can use a link: the service's value, and its label.
ACCESS = {
    "open": "Anyone with the link",
    "company": "People of the company",
    "collaborators": "The people below",
}


async def show(desk: PageDesk) -> responses.Response:
    path = desk.query.get("path", "/")
    node = await _node(desk, path)
    link, problem = None, ""
    found: list[collaborations.Collaboration] = []
    nobody = node.kind is NodeKind.LINK
    try:
        link = await _sharing(desk).link(node)
        if not nobody:
            found = await _sharing(desk).people(node)
    except (errors.CmsfsError, OSError) as error:
        problem = said(error)
    listed = [
        {
            "id": one.id,
            "name": people.name(one),
            "role": one.role or "",
            "notes": people.notes(one, node.remote_id or ""),
            "direct": people.is_direct(one, node.remote_id or ""),
        }
        for one in found
    ]
    return desk.page(
        "sharing.html",
        f"Sharing {node.name}",
        path=path,
        link=link if link is not None and link.url else None,
        problem=problem,
        people=None if nobody else listed,
        access=ACCESS,
        roles=[role for role in people.ROLES.values() if role != "owner"],
        tomorrow=(clock.datetime_now().astimezone() + timedelta(days=1)).date().isoformat(),
        until="" if link is None or link.unshared_at is None else _day(link.unshared_at),
    )


async def share(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    """Create the link, or change its settings."""
    path = given.get("path", "")
    node = await _node(desk, path)
    before = await _sharing(desk).link(node)
    before = before if before is not None and before.url else None
    wish = _terms(given, before)
    terms = items.NewSharedLink.model_validate(wish) if wish else None
    if before is None or terms is not None:
        await _sharing(desk).share(node, terms)
        await desk.drive.poll(full=False)
    words = "The link is made." if before is None else "The terms of the link are changed."
    return desk.to("sharing", words if before is None or wish else "The link is as it was.", path=path)


def _terms(given: dict[str, str], before: items.SharedLink | None) -> dict[str, object]:
    """Return the settings that the form changes; for a new link, those that differ from the defaults."""
    wish: dict[str, object] = {}
    if (access := given.get("access", "")) in ACCESS and (before is None or access != before.access):
        wish["access"] = access
    if given.get("no_password"):
        wish["password"] = None
    elif password := given.get("password", ""):
        wish["password"] = password
    until = given.get("until", "")
    if until != (_day(before.unshared_at) if before is not None and before.unshared_at else ""):
        wish["unshared_at"] = _end(until) if until else None
    allowed = before is None or before.permissions is None or before.permissions.can_download is not False
    if (download := bool(given.get("download"))) != allowed:
        wish["permissions"] = {"can_download": download}
    return wish


async def unshare(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    await _sharing(desk).unshare(await _node(desk, path))
    await desk.drive.poll(full=False)
    return desk.to("sharing", "The link is removed, and shows nothing any more.", path=path)


async def invite(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path, person = given.get("path", ""), given.get("person", "").strip()
    role = given.get("role", "")
    if not person or role not in people.ROLES.values():
        raise errors.UserError("Say whom to invite: the email address that they log in with.")
    ends = _end(given["until"]) if given.get("until") else None
    wish = cast(collaborations.Role, role)
    one = await _sharing(desk).invite(await _node(desk, path), person, wish, ends)
    waits = "; it waits for an answer" if one.status == collaborations.PENDING else ""
    return desk.to("sharing", f"{people.name(one)}: {one.role}{waits}.", path=path)


async def end(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    one = await _sharing(desk).end(await _node(desk, path), given.get("id", ""))
    return desk.to("sharing", f"{people.name(one)} does not collaborate any more.", path=path)


def _end(day: str) -> datetime:
    """Return the end of a day in local time."""
    try:
        found = datetime.combine(date.fromisoformat(day), time(23, 59, 59)).astimezone()
    except ValueError:
        raise errors.UserError(f"{day} is not a date.") from None
    if found <= clock.datetime_now(UTC):
        raise errors.UserError(f"{day} is in the past: choose a later day.")
    return found


def _day(moment: datetime) -> str:
    return moment.astimezone().date().isoformat()


async def _node(desk: PageDesk, path: str) -> Node:
    return await path_lookup.find(desk.drive.state.db, desk.drive.hydrator, path)


def _sharing(desk: PageDesk) -> ItemSharing:
    return ItemSharing(desk.drive.client, desk.drive.health)


PAGES: dict[str, Page] = {"sharing": show}
FORMS: dict[str, Form] = {"share": share, "unshare": unshare, "invite": invite, "uninvite": end}
