"""The page of one user: name, role, status, quota, and deletion."""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk

_FIELDS = "name,login,role,status,space_used,space_amount,created_at,is_platform_access_only"
_GIB = 1024**3
ROLES = {"user": "user", "coadmin": "co-administrator"}
STATUSES = {
    "active": "active",
    "inactive": "inactive: cannot log in",
    "cannot_delete_edit": "cannot delete or edit",
    "cannot_delete_edit_upload": "cannot delete, edit or upload",
}


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    wire_id = desk.request.path_params["id"]
    try:
        user = await desk.ask("GET /users/{id}", wire_id=wire_id, fields=_FIELDS)
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/users", failed=True)
    amount = user["space_amount"]
    space = "" if amount < 0 else f"{amount / _GIB:g}"
    return desk.page(
        "account.html",
        form=form,
        mistake=mistake,
        one=user,
        space=space,
        roles=ROLES,
        statuses=STATUSES,
    )


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change a user's fields, or delete the user."""
    wire_id, action = desk.request.path_params["id"], form.get("action", "")
    if action == "delete":
        return await _delete(desk, wire_id, form)
    if action != "save":
        raise service_desk.Mistake("Choose what to do with the user.")
    body: dict[str, Any] = {
        name: form[name].strip() for name in ("name", "login", "role", "status") if form.get(name)
    }
    body["space_amount"] = _parse_quota(form.get("space", "").strip())
    made = await desk.ask("PUT /users/{id}", wire_id=wire_id, body=body)
    return desk.done(f"{made['name']} is changed.")


def _parse_quota(text: str) -> int:
    """Parse a quota, in bytes; -1 means unlimited."""
    if not text:
        return -1
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < 1e9:
        raise service_desk.Mistake("The space must be a number of GiB, or empty for no limit.")
    return int(amount * _GIB)


async def _delete(desk: Desk, wire_id: str, form: dict[str, str]) -> responses.Response:
    user = await desk.ask("GET /users/{id}", wire_id=wire_id, fields="name,login")
    if form.get("confirm", "").strip() != user["login"]:
        raise service_desk.Mistake("To delete the user, type the exact login.")
    force = "true" if form.get("everything") else ""
    await desk.ask("DELETE /users/{id}", wire_id=wire_id, force=force)
    return desk.done(f"{user['name']} is deleted.", to="/users")
