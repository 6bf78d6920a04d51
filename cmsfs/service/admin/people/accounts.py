"""The page of one user: name, role, status, quota and details, addresses, sessions, and deletion."""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk

_DETAILS = {
    "job_title": "Job title",
    "phone": "Phone",
    "address": "Address",
    "language": "Language",
    "timezone": "Time zone",
}
_SWITCHES = {
    "can_see_managed_users": "Sees the other users of the enterprise",
    "is_external_collab_restricted": "Collaborates inside the enterprise alone",
    "can_search_enterprise_content": "Searches the content of the whole enterprise",
    "is_sync_enabled": "May synchronize",
    "is_exempt_from_device_limits": "Limits of devices do not apply",
    "is_exempt_from_login_verification": "Verification of logins does not apply",
}
_FIELDS = ",".join(
    (
        *("name", "login", "role", "status", "space_used", "space_amount", "created_at"),
        *("is_platform_access_only", "notification_email", "tracking_codes", *_DETAILS, *_SWITCHES),
    )
)
_GIB = 1024**3
ROLES = {"user": "user", "coadmin": "co-administrator"}
STATUSES = {
    "active": "active",
    "inactive": "inactive: cannot log in",
    "cannot_delete_edit": "cannot delete or edit",
    "cannot_delete_edit_upload": "cannot delete, edit or upload",
}
# The most policies and groups shown; longer lists need the API.
_MAX_SHOWN = 500
_ALIASES = "/users/{id}/email_aliases"
_STORAGE = "/storage_policy_assignments"


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    wire_id = desk.request.path_params["id"]
    try:
        user = await desk.ask("GET /users/{id}", wire_id=wire_id, fields=_FIELDS)
        aliases = await desk.ask(f"GET {_ALIASES}", wire_id=wire_id)
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/users", failed=True)
    policies = await desk.ask("GET /storage_policies", limit=_MAX_SHOWN)
    groups = await desk.ask("GET /users/{id}/memberships", wire_id=wire_id, limit=_MAX_SHOWN)
    assignment = await _storage(desk, wire_id)
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
        details=_DETAILS,
        switches=_SWITCHES,
        codes="\n".join(f"{one['name']}={one['value']}" for one in user["tracking_codes"] or ()),
        aliases=aliases["entries"],
        groups=groups["entries"],
        policies=policies["entries"],
        policy=assignment["storage_policy"]["id"] if _is_own(assignment) else "",
    )


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change a user in the way that the form's action names."""
    wire_id = desk.request.path_params["id"]
    verb, _, number = form.get("action", "").partition(" ")
    if verb == "delete":
        return await _delete(desk, wire_id, form)
    if verb == "save":
        return await _save(desk, wire_id, form)
    if verb == "details":
        made = await desk.ask("PUT /users/{id}", wire_id=wire_id, body=_details(form))
        return desk.done(f"The details of {made['name']} are changed.")
    if verb == "alias":
        body = {"email": form.get("email", "").strip()}
        made = await desk.ask(f"POST {_ALIASES}", wire_id=wire_id, body=body)
        return desk.done(f"{made['email']} is an address of the user now.")
    if verb == "forget":
        await desk.ask(f"DELETE {_ALIASES}/{{alias}}", wire_id=wire_id, params={"alias": number})
        return desk.done("The address is taken from the user.")
    if verb == "sessions":
        await desk.ask("POST /users/terminate_sessions", body={"user_ids": [wire_id]})
        return desk.done("The sessions of the user have ended.")
    if verb == "picture":
        await desk.ask("DELETE /users/{id}/avatar", wire_id=wire_id)
        return desk.done("The picture is removed.")
    if verb == "storage":
        return await _set_storage(desk, wire_id, form.get("policy", ""))
    raise service_desk.Mistake("Choose what to do with the user.")


async def _save(desk: Desk, wire_id: str, form: dict[str, str]) -> responses.Response:
    body: dict[str, Any] = {
        name: form[name].strip() for name in ("name", "login", "role", "status") if form.get(name)
    }
    body["space_amount"] = _parse_quota(form.get("space", "").strip())
    made = await desk.ask("PUT /users/{id}", wire_id=wire_id, body=body)
    return desk.done(f"{made['name']} is changed.")


def _details(form: dict[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {name: form.get(name, "").strip() for name in _DETAILS if form.get(name)}
    body |= {name: "" for name in ("job_title", "phone", "address") if not form.get(name)}
    body |= {name: bool(form.get(name)) for name in _SWITCHES}
    email = form.get("notification_email", "").strip()
    body["notification_email"] = {"email": email} if email else None
    lines = [line.partition("=") for line in form.get("codes", "").splitlines() if line.strip()]
    body["tracking_codes"] = [{"name": name.strip(), "value": value.strip()} for name, _, value in lines]
    return body


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


async def _storage(desk: Desk, wire_id: str) -> Any:
    """Return the assignment of the storage policy that applies to a user."""
    found = await desk.ask(f"GET {_STORAGE}", resolved_for_type="user", resolved_for_id=wire_id)
    return found["entries"][0]


def _is_own(assignment: Any) -> bool:
    return bool(assignment["assigned_to"]["type"] == "user")


async def _set_storage(desk: Desk, wire_id: str, policy: str) -> responses.Response:
    """Give a user a storage policy; without one, the enterprise's applies again."""
    assignment = await _storage(desk, wire_id)
    is_own, target = _is_own(assignment), {"type": "storage_policy", "id": policy}
    if is_own and policy:
        await desk.ask(f"PUT {_STORAGE}/{{id}}", wire_id=assignment["id"], body={"storage_policy": target})
    elif is_own:
        await desk.ask(f"DELETE {_STORAGE}/{{id}}", wire_id=assignment["id"])
    elif policy:
        body = {"storage_policy": target, "assigned_to": {"type": "user", "id": wire_id}}
        await desk.ask(f"POST {_STORAGE}", body=body)
    return desk.done("The storage policy is set.")
