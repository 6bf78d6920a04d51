"""Groups: list, create, and for each one its properties, members and collaborations.

All of it through the API's operations.
"""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.admin.people import users

PAGE = 50
_FIELDS = "name,description,invitability_level,member_viewability_level"
_LEVELS = {
    "all_managed_users": "everybody in the enterprise",
    "admins_and_members": "administrators and members",
    "admins_only": "administrators",
}
_ROLES = {"member": "member", "admin": "administrator of the group"}


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    at = int(desk.marker) if desk.marker.isascii() and desk.marker.isdigit() else 0
    found = await desk.ask("GET /groups", limit=PAGE, offset=at, fields=_FIELDS)
    beyond = at + PAGE
    return desk.page(
        "groups.html",
        form=form,
        mistake=mistake,
        entries=found["entries"],
        levels=_LEVELS,
        next=str(beyond) if beyond < found["total_count"] else "",
    )


async def create(desk: Desk, form: dict[str, str]) -> responses.Response:
    made = await desk.ask("POST /groups", body=_properties(form))
    return desk.done(f"Group {made['name']} created.", to=f"/groups/{made['id']}")


def _properties(form: dict[str, str]) -> dict[str, str]:
    body = {"name": form.get("name", "").strip(), "description": form.get("description", "").strip()}
    levels = ("invitability_level", "member_viewability_level")
    return body | {name: form[name] for name in levels if form.get(name)}


async def show_group(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    wire_id = desk.request.path_params["id"]
    try:
        group = await desk.ask("GET /groups/{id}", wire_id=wire_id, fields=_FIELDS)
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/groups", failed=True)
    at = int(desk.marker) if desk.marker.isascii() and desk.marker.isdigit() else 0
    page: dict[str, Any] = {"wire_id": wire_id, "limit": PAGE, "offset": at}
    members = await desk.ask("GET /groups/{id}/memberships", **page)
    shared = await desk.ask("GET /groups/{id}/collaborations", **page)
    beyond = at + PAGE
    return desk.page(
        "group.html",
        form=form,
        mistake=mistake,
        group=group,
        members=members["entries"],
        shared=shared["entries"],
        levels=_LEVELS,
        roles=_ROLES,
        next=str(beyond) if beyond < max(members["total_count"], shared["total_count"]) else "",
    )


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change the group or its members, end the members' sessions, or delete the group."""
    wire_id = desk.request.path_params["id"]
    action, _, number = form.get("action", "").partition(" ")
    if action == "save":
        made = await desk.ask("PUT /groups/{id}", wire_id=wire_id, body=_properties(form))
        return desk.done(f"Group {made['name']} is changed.")
    if action == "add":
        user = await users.find_by_login(desk, form.get("login", "").strip())
        body = {"user": {"id": user["id"]}, "group": {"id": wire_id}, "role": form.get("role") or "member"}
        await desk.ask("POST /group_memberships", body=body)
        return desk.done(f"{user['name']} is in the group now.")
    if action == "role":
        role = {"role": form.get(f"role.{number}", "")}
        await desk.ask("PUT /group_memberships/{id}", wire_id=number, body=role)
        return desk.done("The role is changed.")
    if action == "remove":
        await desk.ask("DELETE /group_memberships/{id}", wire_id=number)
        return desk.done("The user is no longer in the group.")
    if action == "sessions":
        await desk.ask("POST /groups/terminate_sessions", body={"group_ids": [wire_id]})
        return desk.done("The sessions of the members have ended.")
    if action == "delete":
        await desk.ask("DELETE /groups/{id}", wire_id=wire_id)
        return desk.done("The group is deleted.", to="/groups")
    raise service_desk.Mistake("Choose what to do with the group.")
