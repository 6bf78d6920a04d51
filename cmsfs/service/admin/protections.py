"""Pages of one legal hold and of one retention policy: assignments, changes, release, and what they keep.

All of it through the API's operations, which refuse what a policy does not allow.
"""

import re
from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk

PAGE = 50
DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

HOLD_TARGETS = {
    "user": "What a user owns and has made",
    "folder": "A folder and what is below",
    "file": "A file",
}
RETENTION_TARGETS = {
    "enterprise": "Everything of the enterprise",
    "folder": "A folder and what is below",
    "metadata_template": "What has metadata of a template",
}
ACTIONS = {"remove_retention": "keep it", "permanently_delete": "delete it for good"}
_HOLDS, _POLICIES = "/legal_hold_policies", "/retention_policies"


async def show_hold(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    wire_id = desk.request.path_params["id"]
    try:
        hold = await desk.ask(f"GET {_HOLDS}/{{id}}", wire_id=wire_id)
        found = await desk.ask(
            "GET /legal_hold_policy_assignments",
            policy_id=wire_id,
            marker=desk.marker,
            limit=PAGE,
            fields="assigned_to",
        )
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/holds", failed=True)
    return _page(desk, "hold.html", hold, found, HOLD_TARGETS, form, mistake)


async def change_hold(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Rename, assign, unassign or release a hold."""
    wire_id, action = desk.request.path_params["id"], form.get("action", "")
    if action == "save":
        body = {name: form.get(name, "").strip() for name in ("policy_name", "description", "release_notes")}
        await desk.ask(f"PUT {_HOLDS}/{{id}}", wire_id=wire_id, body=body)
        return desk.done("The hold is changed.")
    if action == "assign":
        body_to = {"policy_id": wire_id, "assign_to": _target(form)}
        await desk.ask("POST /legal_hold_policy_assignments", body=body_to)
        return desk.done("The hold is assigned.")
    if action == "release":
        await desk.ask(f"DELETE {_HOLDS}/{{id}}", wire_id=wire_id)
        return desk.done("The hold is being released.")
    verb, _, number = action.partition(" ")
    if verb == "unassign":
        await desk.ask("DELETE /legal_hold_policy_assignments/{id}", wire_id=number)
        return desk.done("The assignment is being released.")
    raise service_desk.Mistake("Choose what to do with the hold.")


async def make_policy(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Create a retention policy."""
    body: dict[str, Any] = {
        "policy_name": form.get("policy_name", "").strip(),
        "description": form.get("description", "").strip(),
        "disposition_action": form.get("disposition_action", ""),
        "retention_type": "modifiable" if form.get("modifiable") else "non_modifiable",
    }
    if days := form.get("days", "").strip():
        body |= {"policy_type": "finite", "retention_length": days}
    else:
        body["policy_type"] = "indefinite"
    made = await desk.ask(f"POST {_POLICIES}", body=body)
    return desk.done(f"Policy {made['policy_name']} created.", to=f"/retention/{made['id']}")


async def show_policy(
    desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    wire_id = desk.request.path_params["id"]
    try:
        policy = await desk.ask(f"GET {_POLICIES}/{{id}}", wire_id=wire_id)
        found = await desk.ask(
            f"GET {_POLICIES}/{{id}}/assignments", wire_id=wire_id, marker=desk.marker, limit=PAGE
        )
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/retention", failed=True)
    return _page(desk, "policy.html", policy, found, RETENTION_TARGETS, form, mistake)


async def change_policy(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Change, assign, unassign, retire or delete a retention policy."""
    wire_id, action = desk.request.path_params["id"], form.get("action", "")
    line = f"PUT {_POLICIES}/{{id}}"
    if action == "save":
        body = {
            name: form.get(name, "").strip() for name in ("policy_name", "description", "disposition_action")
        }
        if days := form.get("days", "").strip():
            body["retention_length"] = days
        await desk.ask(line, wire_id=wire_id, body=body)
        return desk.done("The policy is changed.")
    if action == "retire":
        await desk.ask(line, wire_id=wire_id, body={"status": "retired"})
        return desk.done("The policy is retired: what it protects already stays protected.")
    if action == "assign":
        body_to = {"policy_id": wire_id, "assign_to": _target(form)}
        await desk.ask("POST /retention_policy_assignments", body=body_to)
        return desk.done("The policy is assigned.")
    if action == "delete":
        await desk.ask(f"DELETE {_POLICIES}/{{id}}", wire_id=wire_id)
        return desk.done("The policy is deleted.", to="/retention")
    verb, _, number = action.partition(" ")
    if verb == "unassign":
        await desk.ask("DELETE /retention_policy_assignments/{id}", wire_id=number)
        return desk.done("The assignment has ended.")
    raise service_desk.Mistake("Choose what to do with the policy.")


def _target(form: dict[str, str]) -> dict[str, str]:
    kind, wire_id = form.get("target", ""), form.get("target_id", "").strip()
    return {"type": kind} | ({"id": wire_id} if wire_id else {})


def _page(
    desk: Desk,
    template: str,
    policy: dict[str, Any],
    found: dict[str, Any],
    targets: dict[str, str],
    form: dict[str, str] | None,
    mistake: str,
) -> responses.Response:
    return desk.page(
        template,
        form=form,
        mistake=mistake,
        policy=policy,
        entries=found["entries"],
        next=found["next_marker"] or "",
        targets=targets,
        actions=ACTIONS,
    )


async def show_held(desk: Desk) -> responses.Response:
    """Show the versions that a legal hold covers."""
    wire_id = desk.request.path_params["id"]
    try:
        policy = await desk.ask("GET /legal_hold_policies/{id}", wire_id=wire_id)
        found = await desk.ask(
            "GET /file_version_legal_holds", policy_id=wire_id, marker=desk.marker, limit=PAGE
        )
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/holds", failed=True)
    entries = [_entry(one, "") for one in found["entries"]]
    back = f"/holds/{wire_id}"
    return _coverage_page(
        desk, policy["policy_name"], back, entries, found["next_marker"], "", is_retained=False
    )


async def show_retained(desk: Desk) -> responses.Response:
    """Show the versions that a retention policy keeps longest; with `before`, those that end by that day."""
    wire_id, before = desk.request.path_params["id"], desk.request.query_params.get("before", "")
    try:
        policy = await desk.ask("GET /retention_policies/{id}", wire_id=wire_id)
        ends = f"{before}T23:59:59+00:00" if DAY.fullmatch(before) else ""
        found = await desk.ask(
            "GET /file_version_retentions",
            policy_id=wire_id,
            disposition_before=ends,
            marker=desk.marker,
            limit=PAGE,
        )
    except service_desk.Mistake as error:
        return desk.done(str(error), to="/retention", failed=True)
    entries = [_entry(one, (one["disposition_at"] or "without an end")[:16]) for one in found["entries"]]
    back = f"/retention/{wire_id}"
    name = policy["policy_name"]
    return _coverage_page(
        desk, name, back, entries, found["next_marker"], before if ends else "", is_retained=True
    )


def _entry(version: dict[str, Any], ends: str) -> dict[str, str]:
    file = version["file"]
    return {"name": file["name"], "file": file["id"], "version": version["file_version"]["id"], "ends": ends}


def _coverage_page(
    desk: Desk,
    name: str,
    back: str,
    entries: list[dict[str, str]],
    following: str | None,
    before: str,
    *,
    is_retained: bool,
) -> responses.Response:
    return desk.page(
        "coverage.html",
        name=name,
        back=back,
        entries=entries,
        next=following or "",
        before=before,
        is_retained=is_retained,
    )
