"""Storage policies: where contents are to be stored.  There is one place, this service's store.

The enterprise, and through it its users, have this service's policy; a user may be assigned that one
explicitly, or another one that the enterprise file lists.  Assignments are recorded only; no content moves.

Rule: administrators only.  The id of an assignment contains its target.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models.enterprise import storage_policies
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.storage import store

_ID = "1"
_OWN = {"type": "storage_policy", "id": _ID, "name": "This service"}


def add(conn: Connection, enterprise: int, name: str) -> bool:
    """Add a policy to an enterprise; return False if it has one of this name."""
    sql = "INSERT INTO storage_policy (enterprise, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
    return conn.execute(sql, (enterprise, name)).rowcount == 1


def _shape(row: Row) -> dict[str, Any]:
    return {"type": "storage_policy", "id": str(row["id"]), "name": row["name"]}


async def list_all(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
    sql = "SELECT * FROM storage_policy WHERE enterprise = ? AND id > ? ORDER BY id LIMIT ?"
    found = call.store.read(sql, call.caller.enterprise, after, limit + 1)
    shown = [] if after else [_OWN]
    shown += [_shape(row) for row in found]
    marker = shown[limit - 1]["id"] if len(shown) > limit else None
    return calls.answer(marker_pagination.envelope(shown[:limit], limit, marker))


async def get(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    row = _policy(call.store.read, call, call.id)
    return calls.answer(_OWN if row is None else _shape(row))


def _policy(read: store.Read, call: calls.Call, wire_id: str) -> Row | None:
    """Return a policy of the enterprise; None is this service's own; 404 if there is none."""
    if wire_id == _ID:
        return None
    sql = "SELECT * FROM storage_policy WHERE id = ? AND enterprise = ?"
    found = read(sql, calls.parse_id(wire_id), call.caller.enterprise)
    if not found:
        raise problems.not_found("storage_policy", wire_id)
    return found[0]


def _assignment(read: store.Read, kind: str, number: int) -> dict[str, Any]:
    sql = "SELECT policy FROM storage_assignment WHERE account = ? AND policy IS NOT NULL"
    found = read(sql, number) if kind == "user" else []
    return {
        "type": "storage_policy_assignment",
        "id": f"{kind}_{number}",
        "storage_policy": {"type": "storage_policy", "id": str(found[0]["policy"]) if found else _ID},
        "assigned_to": {"type": kind, "id": str(number)},
    }


def _target(read: store.Read, call: calls.Call, kind: str, wire_id: str) -> int:
    """Return the row id of a user or of the enterprise; 404 if it is not in the caller's enterprise."""
    if kind == "user":
        return int(calls.get_user(read, call.caller, wire_id)["id"])
    if wire_id != str(call.caller.enterprise):
        raise problems.not_found("enterprise", wire_id)
    return call.caller.enterprise


def _has_own(read: store.Read, number: int) -> bool:
    return bool(read("SELECT 1 FROM storage_assignment WHERE account = ?", number))


def _find(read: store.Read, call: calls.Call) -> tuple[str, int]:
    """Return the target of the assignment in the path; 404 if there is none."""
    kind, _, wire_id = call.id.partition("_")
    if kind in ("user", "enterprise"):
        number = calls.parse_id(wire_id)
        if kind == "enterprise" and number == call.caller.enterprise:
            return kind, number
        if kind == "user" and number is not None and _has_own(read, number):
            return kind, _target(read, call, kind, wire_id)
    raise problems.not_found("storage_policy_assignment", call.id)


async def list_assignments(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params, read = call.request.query_params, call.store.read
    kind, wire_id = params.get("resolved_for_type", ""), params.get("resolved_for_id", "")
    if kind not in ("user", "enterprise"):
        raise problems.invalid("resolved_for_type", "must be user or enterprise")
    if not wire_id:
        raise problems.invalid("resolved_for_id", "is required", reason="missing_parameter")
    number = _target(read, call, kind, wire_id)
    if kind == "user" and not _has_own(read, number):
        kind, number = "enterprise", call.caller.enterprise
    return calls.answer(marker_pagination.envelope([_assignment(read, kind, number)], 1, None))


async def assign(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(storage_policies.NewStorageAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read, kind = store.reader(conn), wish.assigned_to.type
        policy = _policy(read, call, wish.storage_policy.id)
        number = _target(read, call, kind, wish.assigned_to.id)
        if kind == "enterprise" or _has_own(read, number):
            raise problems.Refused(409, "conflict", f"This {kind} has a storage policy already.")
        sql = "INSERT INTO storage_assignment (account, policy) VALUES (?, ?)"
        conn.execute(sql, (number, policy["id"] if policy else None))
        return _assignment(read, kind, number)

    return calls.answer(await call.store.write(txn), 201)


async def get_assignment(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    return calls.answer(_assignment(call.store.read, *_find(call.store.read, call)))


async def update(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(storage_policies.UpdateStorageAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        kind, number = _find(read, call)
        if wish.storage_policy is not None:
            policy = _policy(read, call, wish.storage_policy.id)
            if kind == "enterprise" and policy is not None:
                message = "The enterprise has this service's storage policy always."
                raise problems.Refused(403, "forbidden", message)
            sql = "UPDATE storage_assignment SET policy = ? WHERE account = ?"
            conn.execute(sql, (policy["id"] if policy else None, number if kind == "user" else None))
        return _assignment(read, kind, number)

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        kind, number = _find(store.reader(conn), call)
        if kind == "enterprise":
            raise problems.Refused(403, "forbidden", "The enterprise has its storage policy always.")
        conn.execute("DELETE FROM storage_assignment WHERE account = ?", (number,))

    await call.store.write(txn)
    return responses.Response(status_code=204)


_SHOWN = storage_policies.StorageAssignment
_ASSIGNMENTS = "/storage_policy_assignments"

routes = [
    Operation(
        "GET /storage_policies",
        list_all,
        "List the storage policies",
        models_paging.MarkerPage[storage_policies.StoragePolicy],
        query=[*operations.MARKED, operations.FIELDS],
        more="The first is this service's own; others are listed in the enterprise file.",
    ),
    Operation("GET /storage_policies/{id}", get, "Get a storage policy", storage_policies.StoragePolicy),
    Operation(
        f"GET {_ASSIGNMENTS}",
        list_assignments,
        "Get the storage policy of a user or of the enterprise",
        models_paging.MarkerPage[_SHOWN],
        query=[
            operations.Parameter(
                "resolved_for_type",
                "What the id is of.",
                {"type": "string", "enum": ["user", "enterprise"]},
                required=True,
            ),
            operations.Parameter("resolved_for_id", "The id of the user or enterprise.", required=True),
            operations.MARKER,
        ],
        errors=(404,),
    ),
    Operation(
        f"POST {_ASSIGNMENTS}",
        assign,
        "Give a user a storage policy",
        _SHOWN,
        status=201,
        body=storage_policies.NewStorageAssignment,
        errors=(404, 409),
    ),
    Operation(f"GET {_ASSIGNMENTS}/{{id}}", get_assignment, "Get a storage policy assignment", _SHOWN),
    Operation(
        f"PUT {_ASSIGNMENTS}/{{id}}",
        update,
        "Change a storage policy assignment",
        _SHOWN,
        body=storage_policies.UpdateStorageAssignment,
    ),
    Operation(f"DELETE {_ASSIGNMENTS}/{{id}}", delete, "Have a user follow the enterprise again", status=204),
]
