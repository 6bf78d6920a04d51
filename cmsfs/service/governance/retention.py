"""Retention: what differs from other policies (`policies.py`).

A policy retains what it is assigned to for a number of days from the upload, or indefinitely.  A policy that
is not modifiable can only be lengthened and retired; a retired one covers nothing new, and what it covers
stays retained until its time is over.  It is assigned to a folder, to the enterprise or to a metadata
template.  With a template, `filter_fields` narrows it to instances with one option, and `start_date_field`
starts the retention at a date of the instance instead of the upload.

Rule: assignments of a policy that is not modifiable cannot be deleted.  The sweeper deletes expired content
within the hour after `disposition_at`.
"""

import json
from collections.abc import Mapping, Sequence
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.models.content import items
from cmsfs.models.enterprise import retention
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.governance import policies, policy_assignments
from cmsfs.service.metadata import templates
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

# Fields that are stored without being interpreted.
_NOTICES = ("can_owner_extend_retention", "are_owners_notified", "custom_notification_recipients")
# The public API's default of `start_date_field`.
_UPLOAD = "upload_date"


class _Policies(policies.Policies[retention.NewRetentionPolicy, retention.UpdateRetentionPolicy]):
    name = "retention_policy"
    path = "/retention_policies"
    assigned = "retention_assignment"
    mini = ("id", "policy_name", "retention_length", "disposition_action")
    shape = retention.RetentionPolicy
    counts = retention.RetentionAssignmentCounts
    filters = (
        operations.Parameter("policy_name", "What the names begin with."),
        operations.choice("policy_type", "Of one type.", "finite", "indefinite"),
        operations.Parameter("created_by_user_id", "Made by this user."),
    )
    deleting = ("Delete", 204)
    new = retention.NewRetentionPolicy
    update = retention.UpdateRetentionPolicy

    def conditions(self, params: Mapping[str, str]) -> list[tuple[str, Any]]:
        # Unlike for holds, case-sensitive.
        found = [policies.begins("name", params.get("policy_name", ""))]
        if kind := params.get("policy_type"):
            if kind not in ("finite", retention.INDEFINITE):
                raise problems.invalid("policy_type", "must be finite or indefinite")
            found.append(("(days IS NULL) = ?", kind == retention.INDEFINITE))
        if user := params.get("created_by_user_id"):
            found.append(("created_by = ?", calls.parse_id(user)))
        return found

    def columns(self, wish: retention.NewRetentionPolicy) -> dict[str, Any]:
        return {
            "name": wish.policy_name,
            "description": wish.description or "",
            "days": _days(wish.retention_length),
            "disposition_action": wish.disposition_action,
            "is_modifiable": wish.retention_type == "modifiable",
            "details": _notice_settings("{}", wish),
        }

    def changes(self, row: Row, wish: retention.UpdateRetentionPolicy, now: int) -> dict[str, Any]:
        given = {
            "name": wish.policy_name,
            "description": wish.description,
            "disposition_action": wish.disposition_action,
            "is_modifiable": None if wish.retention_type is None else False,
        }
        columns: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if wish.retention_length is not None:
            columns["days"] = _longer(row, _days(wish.retention_length))
        if row["retired_at"] is not None and any(value != row[name] for name, value in columns.items()):
            raise _forbidden("The policy is retired.")
        if wish.status == "retired" and row["retired_at"] is None:
            columns["retired_at"] = now
        return columns | {"details": _notice_settings(row["details"], wish)}

    def remove(self, conn: Connection, row: Row, now: int) -> None:
        sql = "SELECT 1 FROM retention_assignment WHERE policy = ?"
        if not row["is_modifiable"] and conn.execute(sql, (row["id"],)).fetchone():
            raise _not_deletable()
        conn.execute("DELETE FROM retention_policy WHERE id = ?", (row["id"],))

    def details(self, row: Row, now: int) -> dict[str, Any]:
        known: dict[str, Any] = json.loads(row["details"])
        return {
            "policy_type": retention.INDEFINITE if row["days"] is None else "finite",
            "retention_length": retention.INDEFINITE if row["days"] is None else str(row["days"]),
            "retention_type": "modifiable" if row["is_modifiable"] else "non_modifiable",
            "disposition_action": row["disposition_action"],
            "status": "active" if row["retired_at"] is None else "retired",
            "can_owner_extend_retention": False,
            "are_owners_notified": False,
            "custom_notification_recipients": [],
        } | known


def _days(length: int | str | None) -> int | None:
    return length if isinstance(length, int) else None


def _longer(row: Row, days: int | None) -> int | None:
    """Return the policy's new length; 400 for another type, 403 for a shorter one if it is not modifiable."""
    if (days is None) != (row["days"] is None):
        raise problems.invalid("retention_length", "cannot make one type of policy into the other")
    if not row["is_modifiable"] and days is not None and days < row["days"]:
        raise _forbidden("The policy cannot be modified: its length can only grow.")
    return days


def _notice_settings(
    before: str, wish: retention.NewRetentionPolicy | retention.UpdateRetentionPolicy
) -> str:
    given = {name: value for name, value in wish.model_dump(mode="json").items() if name in _NOTICES}
    known = json.loads(before) | {name: value for name, value in given.items() if value is not None}
    return json.dumps(known, ensure_ascii=False)


def _forbidden(message: str) -> problems.Refused:
    return problems.Refused(403, "forbidden_by_policy", message)


def _not_deletable() -> problems.Refused:
    return _forbidden("The policy cannot be modified: what it is assigned to stays.")


class _Assignments(policy_assignments.Assignments[retention.NewRetentionAssignment]):
    path = "/retention_policy_assignments"
    listing = "GET /retention_policies/{id}/assignments"
    filters = (operations.choice("type", "Of one type.", "enterprise", "folder", "metadata_template"),)
    select = (
        "p.days, p.disposition_action, p.is_modifiable, coalesce(t.uuid, CAST(a.target AS TEXT)) AS shown"
    )
    join = "LEFT JOIN metadata_template AS t ON a.type = 'metadata_template' AND t.id = a.target"
    mini = ("id", "retention_policy", "assigned_to")
    shape = retention.RetentionAssignment
    version_shape = items.File
    version_note = "Each as its file, with this version in it."
    closed = ("retired_at", "retired")
    coverage = ("under retention", protection.RETAINED)
    new = retention.NewRetentionAssignment

    def policy_id(self, call: calls.Call) -> str:
        return call.id

    def conditions(self, call: calls.Call) -> list[tuple[str, Any]]:
        kind = call.request.query_params.get("type")
        return [("a.type = ?", kind)] if kind else []

    def target(
        self, read: store.Read, caller: calls.Caller, wish: retention.NewRetentionAssignment
    ) -> dict[str, Any]:
        to = wish.assign_to
        if to.type == "metadata_template":
            return _instances(templates.get_by_id(read, caller, to.id or ""), wish)
        if wish.filter_fields or wish.start_date_field not in (None, _UPLOAD):
            raise problems.invalid("filter_fields", "needs a metadata template")
        if to.type == "enterprise":
            if to.id not in (None, "", str(caller.enterprise)):
                raise problems.not_found("enterprise", str(to.id))
            return {"target": caller.enterprise}
        folder = calls.find_enterprise_item(read, caller, ItemKind.FOLDER, to.id or "")
        if folder is None:
            raise problems.not_found("folder", to.id or "")
        return {"target": folder["id"]}

    def remove(self, conn: Connection, row: Row, now: int) -> None:
        if not row["is_modifiable"]:
            raise _not_deletable()
        conn.execute("DELETE FROM retention_assignment WHERE id = ?", (row["id"],))

    def details(self, call: calls.Call, row: Row) -> dict[str, Any]:
        filters = [{"field": one["field"], "value": one["value"]} for one in json.loads(row["filters"])]
        days = retention.INDEFINITE if row["days"] is None else marker_pagination.number_id(call, row["days"])
        policy = {
            "type": "retention_policy",
            "id": self.of.wire_id(call, row["policy"]),
            "policy_name": row["policy_name"],
            "retention_length": days,
            "disposition_action": row["disposition_action"],
        }
        return {
            "id": marker_pagination.number_id(call, row["id"]),
            "retention_policy": policy,
            "filter_fields": filters,
            "start_date_field": row["start_field"] or _UPLOAD,
        }

    def versions(
        self, read: store.Read, shaper: item_serializer.ItemSerializer, rows: Sequence[Row]
    ) -> list[dict[str, Any]]:
        """Return each covered version as its file with this version in it."""
        numbers = json.dumps([row["file"] for row in rows])
        files = read(
            "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers
        )
        by_id = {one["id"]: shaped for one, shaped in zip(files, shaper.items(files), strict=True)}
        return [
            by_id[row["file"]]
            | {"file_version": {"type": "file_version", "id": str(row["id"]), "sha1": row["sha1"]}}
            for row in rows
        ]


def _instances(template: Row, wish: retention.NewRetentionAssignment) -> dict[str, Any]:
    """Return a template as a target, with the filter on its instances; 400 for an impossible one."""
    by_id = {one["id"]: one for one in json.loads(template["fields"])}
    filters = []
    for one in wish.filter_fields or ():
        options = {option["id"]: option["key"] for option in by_id.get(one.field, {}).get("options", ())}
        if one.value not in options:
            message = "must name a field of the template and one of its options"
            raise problems.invalid("filter_fields", message)
        key = by_id[one.field]["key"]
        filters.append({"field": one.field, "value": one.value, "key": key, "text": options[one.value]})
    found = {"target": template["id"], "filters": json.dumps(filters)}
    if wish.start_date_field in (None, _UPLOAD):
        return found
    start = by_id.get(wish.start_date_field or "", {})
    if start.get("type") != "date":
        raise problems.invalid("start_date_field", "must be a date field of the template")
    return found | {"start_field": wish.start_date_field, "start_key": start["key"]}


POLICIES = _Policies()
ASSIGNMENTS = _Assignments(POLICIES)

routes = POLICIES.routes()
assignment_routes = ASSIGNMENTS.routes()
