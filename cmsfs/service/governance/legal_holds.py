"""Legal holds: what differs from other policies (`policies.py`).

Deletion is answered at once and takes effect a little later: `active` becomes `releasing`, then `released`.
A hold on a user covers what they own and what they created; `ownership` and `interactions` are one of the
two.

Rule: rows of holds are never deleted: a released one has the time of its release.
"""

from collections.abc import Mapping, Sequence
from sqlite3 import Connection, Row
from typing import Any, get_args

from cmsfs.models import wire_names
from cmsfs.models.enterprise import legal_holds
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.governance import policies, policy_assignments
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

_MOMENTS = ("deleted_at", "filter_started_at", "filter_ended_at")


class _Policies(policies.Policies[legal_holds.NewLegalHoldPolicy, legal_holds.UpdateLegalHoldPolicy]):
    name = "legal_hold_policy"
    path = "/legal_hold_policies"
    assigned = "legal_hold_assignment"
    in_force = "a.deleted_at IS NULL"
    mini = ("id", "policy_name")
    shape = legal_holds.LegalHoldPolicy
    counts = legal_holds.HoldAssignmentCounts
    filters = (operations.Parameter("policy_name", "What the names begin with."),)
    deleting = ("Release", 202)
    new = legal_holds.NewLegalHoldPolicy
    update = legal_holds.UpdateLegalHoldPolicy

    def conditions(self, params: Mapping[str, str]) -> list[tuple[str, Any]]:
        return [policies.begins("name_key", wire_names.name_key(params.get("policy_name", "")))]

    def columns(self, wish: legal_holds.NewLegalHoldPolicy) -> dict[str, Any]:
        started, ended = wish.filter_started_at, wish.filter_ended_at
        return {
            "name": wish.policy_name,
            "name_key": wire_names.name_key(wish.policy_name),
            "description": wish.description or "",
            "is_ongoing": started is None,
            "filter_started_at": None if started is None else item_serializer.micros(started),
            "filter_ended_at": None if ended is None else item_serializer.micros(ended),
        }

    def changes(self, row: Row, wish: legal_holds.UpdateLegalHoldPolicy, now: int) -> dict[str, Any]:
        given = {"name": wish.policy_name, "description": wish.description}
        given["release_notes"] = wish.release_notes
        if wish.policy_name is not None:
            given["name_key"] = wire_names.name_key(wish.policy_name)
        return {name: text for name, text in given.items() if text is not None}

    def remove(self, conn: Connection, row: Row, now: int) -> None:
        sql = "UPDATE legal_hold_policy SET deleted_at = ?1, modified_at = ?1 WHERE id = ?2"
        conn.execute(f"{sql} AND deleted_at IS NULL", (now, row["id"]))

    def details(self, row: Row, now: int) -> dict[str, Any]:
        moments = {
            name: None if row[name] is None else item_serializer.to_timestamp(row[name]) for name in _MOMENTS
        }
        return moments | {
            "release_notes": row["release_notes"],
            "status": _status(row, now),
            "is_ongoing": bool(row["is_ongoing"]),
        }

    def wire_id(self, call: calls.Call, number: int) -> int | str:
        return marker_pagination.number_id(call, number)


def _status(row: Row, now: int) -> str:
    if row["deleted_at"] is None:
        return "active"
    return "releasing" if row["deleted_at"] > now - protection.RELEASE_MICROS else "released"


class _Assignments(policy_assignments.Assignments[legal_holds.NewHoldAssignment]):
    path = "/legal_hold_policy_assignments"
    listing = "GET /legal_hold_policy_assignments"
    filters = (
        operations.Parameter("policy_id", "The policy.", required=True),
        operations.choice("assign_to_type", "What it is assigned to.", *get_args(legal_holds.AssignType)),
        operations.Parameter("assign_to_id", "The id of that."),
    )
    select = "a.target AS shown, p.deleted_at AS policy_deleted_at"
    mini = ("id",)
    shape = legal_holds.HoldAssignment
    version_shape = legal_holds.VersionOnHold
    closed = ("deleted_at", "released")
    coverage = ("on hold", protection.HELD)
    deleting_errors = (409,)
    new = legal_holds.NewHoldAssignment

    def policy_id(self, call: calls.Call) -> str:
        if not (wire_id := call.request.query_params.get("policy_id")):
            raise problems.invalid("policy_id", "is required", reason="missing_parameter")
        return wire_id

    def conditions(self, call: calls.Call) -> list[tuple[str, Any]]:
        params = call.request.query_params
        found: list[tuple[str, Any]] = []
        if kind := params.get("assign_to_type"):
            found.append(("a.type = ?", kind))
        if target := params.get("assign_to_id"):
            number = call.caller.root if target == wire_names.ROOT_ID else calls.parse_id(target)
            found.append(("a.target = ?", number))
        return found

    def target(
        self, read: store.Read, caller: calls.Caller, wish: legal_holds.NewHoldAssignment
    ) -> dict[str, Any]:
        kind, wire_id = wish.assign_to.type, wish.assign_to.id
        found: Row | None
        if kind in ("file", "folder"):
            item_kind = ItemKind.FILE if kind == "file" else ItemKind.FOLDER
            found = calls.find_enterprise_item(read, caller, item_kind, wire_id)
        elif kind == "file_version":
            rows = read(
                "SELECT v.* FROM version AS v JOIN item AS f ON f.id = v.file"
                " JOIN account AS u ON u.id = f.owner WHERE v.id = ? AND u.enterprise = ?",
                calls.parse_id(wire_id),
                caller.enterprise,
            )
            found = rows[0] if rows else None
        else:
            found = calls.get_user(read, caller, wire_id)
        if found is None:
            raise problems.not_found(kind, wire_id)
        return {"target": found["id"]}

    def remove(self, conn: Connection, row: Row, now: int) -> None:
        if row["deleted_at"] is not None:
            raise problems.Refused(409, "conflict", "This assignment is being released already.")
        conn.execute("UPDATE legal_hold_assignment SET deleted_at = ? WHERE id = ?", (now, row["id"]))

    def details(self, call: calls.Call, row: Row) -> dict[str, Any]:
        policy_id = self.of.wire_id(call, row["policy"])
        ended = row["deleted_at"] or row["policy_deleted_at"]
        return {
            "id": str(row["id"]),
            "legal_hold_policy": {
                "type": "legal_hold_policy",
                "id": policy_id,
                "policy_name": row["policy_name"],
            },
            "deleted_at": None if ended is None else item_serializer.to_timestamp(ended),
        }

    def versions(
        self, read: store.Read, shaper: item_serializer.ItemSerializer, rows: Sequence[Row]
    ) -> list[dict[str, Any]]:
        return [
            {
                "type": "file_version",
                "id": str(row["id"]),
                "sha1": row["sha1"],
                "name": row["name"],
                "size": row["size"],
                "created_at": item_serializer.to_timestamp(row["created_at"]),
                "file": {"type": "file", "id": str(row["file"])},
            }
            for row in rows
        ]


POLICIES = _Policies()
ASSIGNMENTS = _Assignments(POLICIES)

routes = POLICIES.routes()
assignment_routes = ASSIGNMENTS.routes()
