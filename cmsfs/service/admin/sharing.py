"""Pages for what the enterprise's users share: collaborations with their roles, and shared links.

An administrator's changes are made as the owner of the item, as with the `as-user` header, and logged that
way.  The domains that the enterprise collaborates with are on the page of exemptions.

Rule: a link's URL is shown as its owner sees it; its password never is, not even masked.
"""

from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.service.access import calls, roles, shared_links
from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

PAGE = 50
# The most groups to choose from; others need the API.
_MAX_SHOWN = 500

_COLLABORATIONS = """
  SELECT c.id, c.role, c.status, c.created_at, item.name AS item, owner.name AS owner_name,
    coalesce(guest.name, user_group.name, c.email) AS guest, guest.login AS guest_login,
    coalesce(guest.enterprise, c.enterprise) != c.enterprise AS is_external
  FROM collaboration AS c JOIN item ON item.id = c.item JOIN account AS owner ON owner.id = item.owner
    LEFT JOIN account AS guest ON guest.id = c.account LEFT JOIN user_group ON user_group.id = c.user_group
  WHERE owner.enterprise = ?1 AND c.id > ?2 ORDER BY c.id LIMIT ?3
"""
# Few items have links: they are found by the index of links, and sorted.
_LINKS = """
  SELECT item.*, owner.name AS owner_name FROM item INDEXED BY item_link
    JOIN account AS owner ON owner.id = item.owner
  WHERE item.link IS NOT NULL AND item.status = 0 AND owner.enterprise = ?1 AND item.id > ?2
  ORDER BY item.id LIMIT ?3
"""
# The owner of a collaboration's item.
_SHARER = "SELECT owner FROM item JOIN collaboration AS c ON c.item = item.id WHERE c.id = ?"
_OWNER = "SELECT owner FROM item WHERE id = ?"
_NOT_FOUND = "That is no longer shared."


def _when(micros: int) -> str:
    return item_serializer.to_timestamp(micros)[:10]


async def collaborations(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    rows, following = await desk.rows(_COLLABORATIONS, PAGE)
    entries = [dict(row) | {"since": _when(row["created_at"])} for row in rows]
    found = await desk.ask("GET /groups", limit=_MAX_SHOWN)
    return desk.page(
        "collaborations.html",
        form=form,
        mistake=mistake,
        entries=entries,
        next=following,
        roles=list(roles.ROLES),
        groups=found["entries"],
    )


async def share(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Share anybody's item with a user or a group, as its owner."""
    item, login, group = (form.get(name, "").strip() for name in ("item", "login", "group"))
    if bool(login) == bool(group):
        raise service_desk.Mistake("Choose a group, or give a login.")
    owner = desk.find_user(_OWNER, calls.parse_id(item), not_found="There is no such item.")
    kind = desk.store.read("SELECT kind FROM item WHERE id = ?", calls.parse_id(item))[0]["kind"]
    body = {
        "item": {"type": KIND_NAMES[ItemKind(kind)], "id": item},
        "accessible_by": {"type": "user", "login": login} if login else {"type": "group", "id": group},
        "role": form.get("role", ""),
    }
    made = await desk.ask_as(owner, "POST /collaborations", body=body)
    return desk.done(f"{made['item']['name'] if made['item'] else 'The item'} is shared.")


async def change_collaboration(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change a collaborator's role, or end a collaboration."""
    wire_id = desk.request.path_params["id"]
    owner = desk.find_user(_SHARER, calls.parse_id(wire_id), not_found=_NOT_FOUND)
    if form.get("action") == "end":
        await desk.ask_as(owner, "DELETE /collaborations/{id}", wire_id=wire_id)
        return desk.done("The collaboration has ended.", to="/collaborations")
    body = {"role": form.get("role", "")}
    await desk.ask_as(owner, "PUT /collaborations/{id}", wire_id=wire_id, body=body)
    return desk.done(f"The role is {body['role']} now.", to="/collaborations")


async def links(desk: Desk) -> responses.Response:
    rows, following = await desk.rows(_LINKS, PAGE)
    entries = [_link(row, shape) for row in rows if (shape := shared_links.shape(row)) is not None]
    return desk.page("links.html", entries=entries, next=following)


def _link(row: Row, shape: dict[str, Any]) -> dict[str, Any]:
    kind = KIND_NAMES[ItemKind(row["kind"])]
    return {
        "wire": f"{kind}-{row['id']}",
        "name": row["name"],
        "kind": kind.replace("_", " "),
        "owner": row["owner_name"],
        "url": shape["url"],
        "access": shape["access"],
        "may": shape["effective_permission"].removeprefix("can_"),
        "ends": (shape["unshared_at"] or "")[:10],
    }


async def end_link(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Remove a link: its URL stops working."""
    kind, _, wire_id = desk.request.path_params["item"].partition("-")
    if kind not in KIND_NAMES.values():
        raise service_desk.Mistake(_NOT_FOUND)
    owner = desk.find_user(_OWNER, calls.parse_id(wire_id), not_found=_NOT_FOUND)
    body = {"shared_link": None}
    made = await desk.ask_as(owner, f"PUT /{kind}s/{{id}}", wire_id=wire_id, body=body)
    return desk.done(f"{made['name']} no longer has a shared link.", to="/links")
