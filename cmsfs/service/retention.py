"""Retention policies: listed, made, changed, retired, deleted.

A policy keeps what it is assigned to for a number of days from the upload, or without end.  One that is not
modifiable can only be lengthened and retired; retired, it covers nothing new, and what it has stays until
its time is over.

Rule: administrators only; what is over is disposed of by the sweeper, within the hour after `disposition_at`.
"""

import json
from sqlite3 import Connection, IntegrityError, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models import retention
from cmsfs.service import access, fields, markers, operations, problems, store
from cmsfs.service.operations import Operation

_MINI = ("id", "policy_name", "retention_length", "disposition_action")
_NOTICES = ("can_owner_extend_retention", "are_owners_notified", "custom_notification_recipients")

_COUNTS = "SELECT type, count(*) AS n FROM retention_assignment WHERE policy = ? GROUP BY type"


async def list_policies(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    params = call.request.query_params
    limit, after = markers.read_limit(params), markers.read_marker(params)
    sql = "SELECT * FROM retention_policy WHERE enterprise = ? AND id > ?"
    args: list[Any] = [call.caller.enterprise, after]
    if prefix := params.get("policy_name"):
        # Unlike holds, by the exact letters.
        sql += " AND substr(name, 1, length(?3)) = ?3"
        args.append(prefix)
    if kind := params.get("policy_type"):
        if kind not in ("finite", retention.INDEFINITE):
            raise problems.invalid("policy_type", "must be finite or indefinite")
        sql += f" AND days IS {'NOT ' if kind == 'finite' else ''}NULL"
    if user := params.get("created_by_user_id"):
        sql += f" AND created_by = ?{len(args) + 1}"
        args.append(access.parse_id(user))
    found = call.store.read(f"{sql} ORDER BY id LIMIT ?{len(args) + 1}", *args, limit + 1)
    rows, marker = markers.cut(found, limit)
    return access.answer(
        markers.envelope([_shown(call, call.store.read, one) for one in rows], limit, marker)
    )


async def create(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    wish = await call.body(retention.NewRetentionPolicy)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        number = insert(conn, call.caller.enterprise, wish, by=call.caller.id, now=call.store.now())
        return _shown(call, read, get_policy(read, call.caller, str(number)))

    return access.answer(await call.store.write(txn), 201)


def insert(
    conn: Connection, enterprise: int, wish: retention.NewRetentionPolicy, *, by: int, now: int
) -> int:
    """Make a policy, assigned to nothing; 409 if its name is taken."""
    try:
        cursor = conn.execute(
            "INSERT INTO retention_policy (enterprise, name, description, days, disposition_action,"
            " is_modifiable, details, created_by, created_at, modified_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?9, ?9)",
            (
                *(enterprise, wish.policy_name, wish.description or "", _days(wish.retention_length)),
                *(wish.disposition_action, wish.retention_type == "modifiable", _notices("{}", wish)),
                *(by, now),
            ),
        )
    except IntegrityError:
        raise _name_taken() from None
    assert cursor.lastrowid is not None
    return cursor.lastrowid


async def get(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    return access.answer(_shown(call, call.store.read, get_policy(call.store.read, call.caller, call.id)))


async def update(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    wish = await call.body(retention.UpdateRetentionPolicy)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = get_policy(read, call.caller, call.id)
        now = call.store.now()
        columns = _columns(row, wish) | {"modified_at": now}
        if wish.status == "retired" and row["retired_at"] is None:
            columns["retired_at"] = now
        parts = ", ".join(f"{name} = ?" for name in columns)
        try:
            conn.execute(f"UPDATE retention_policy SET {parts} WHERE id = ?", (*columns.values(), row["id"]))
        except IntegrityError:
            raise _name_taken() from None
        return _shown(call, read, get_policy(read, call.caller, call.id))

    return access.answer(await call.store.write(txn))


def _columns(row: Row, wish: retention.UpdateRetentionPolicy) -> dict[str, Any]:
    """The columns that a wish sets; 403 for what may not be done to this policy."""
    columns: dict[str, Any] = {"details": _notices(row["details"], wish)}
    if wish.policy_name is not None:
        columns["name"] = wish.policy_name
    if wish.description is not None:
        columns["description"] = wish.description
    if wish.disposition_action is not None:
        columns["disposition_action"] = wish.disposition_action
    if wish.retention_type is not None:
        columns["is_modifiable"] = False
    if wish.retention_length is not None:
        days = _days(wish.retention_length)
        if (days is None) != (row["days"] is None):
            raise problems.invalid("retention_length", "cannot make one type of policy into the other")
        if not row["is_modifiable"] and days is not None and days < row["days"]:
            raise forbidden("The policy cannot be modified: its length can only grow.")
        columns["days"] = days
    if row["retired_at"] is not None and any(
        value != row[name] for name, value in columns.items() if name != "details"
    ):
        raise forbidden("The policy is retired.")
    return columns


async def delete(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = get_policy(store.reader(conn), call.caller, call.id)
        assigned = conn.execute(
            "SELECT 1 FROM retention_assignment WHERE policy = ?", (row["id"],)
        ).fetchone()
        if assigned and not row["is_modifiable"]:
            raise forbidden("The policy cannot be modified: what it is assigned to stays.")
        conn.execute("DELETE FROM retention_policy WHERE id = ?", (row["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


def get_policy(read: store.Read, caller: access.Caller, wire_id: str) -> Row:
    """A policy of the caller's enterprise; 404 if there is none with this id."""
    sql = "SELECT * FROM retention_policy WHERE id = ? AND enterprise = ?"
    found = read(sql, access.parse_id(wire_id), caller.enterprise)
    if not found:
        raise problems.not_found("retention_policy", wire_id)
    return found[0]


def forbidden(said: str) -> problems.Refused:
    return problems.Refused(403, "forbidden_by_policy", said)


def _name_taken() -> problems.Refused:
    return problems.Refused(409, "conflict", "A retention policy with this name exists already.")


def _days(length: int | str | None) -> int | None:
    return length if isinstance(length, int) else None


def _notices(before: str, wish: retention.NewRetentionPolicy | retention.UpdateRetentionPolicy) -> str:
    given = {name: value for name, value in wish.model_dump(mode="json").items() if name in _NOTICES}
    known = json.loads(before) | {name: value for name, value in given.items() if value is not None}
    return json.dumps(known, ensure_ascii=False)


def _shown(call: access.Call, read: store.Read, row: Row) -> dict[str, Any]:
    counts = dict.fromkeys(retention.AssignmentCounts.model_fields, 0)
    counts |= {one["type"]: one["n"] for one in read(_COUNTS, row["id"])}
    user = read("SELECT * FROM user WHERE id = ?", row["created_by"])[0]
    whole: dict[str, Any] = {
        "type": "retention_policy",
        "id": str(row["id"]),
        "policy_name": row["name"],
        "description": row["description"],
        "policy_type": retention.INDEFINITE if row["days"] is None else "finite",
        "retention_length": retention.INDEFINITE if row["days"] is None else str(row["days"]),
        "retention_type": "modifiable" if row["is_modifiable"] else "non_modifiable",
        "disposition_action": row["disposition_action"],
        "status": "active" if row["retired_at"] is None else "retired",
        "assignment_counts": counts,
        "can_owner_extend_retention": False,
        "are_owners_notified": False,
        "custom_notification_recipients": [],
        "created_by": fields.user_mini(user),
        "created_at": fields.moment(row["created_at"]),
        "modified_at": fields.moment(row["modified_at"]),
    }
    return markers.chosen(whole | json.loads(row["details"]), _MINI, call.fields)


_PATH = "/retention_policies"
_SHOWN = retention.RetentionPolicy
_FIELDS = [operations.FIELDS]

routes = [
    Operation(
        f"GET {_PATH}",
        list_policies,
        "List retention policies",
        models_paging.MarkerPage[_SHOWN],
        query=[
            operations.Parameter("policy_name", "What the names begin with."),
            operations.choice("policy_type", "Of one type.", "finite", "indefinite"),
            operations.Parameter("created_by_user_id", "Made by this user."),
            *operations.MARKED,
            *_FIELDS,
        ],
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Create a retention policy",
        _SHOWN,
        status=201,
        query=_FIELDS,
        body=retention.NewRetentionPolicy,
        errors=(409,),
    ),
    Operation(f"GET {_PATH}/{{id}}", get, "Get a retention policy", _SHOWN, query=_FIELDS),
    Operation(
        f"PUT {_PATH}/{{id}}",
        update,
        "Change a retention policy",
        _SHOWN,
        query=_FIELDS,
        body=retention.UpdateRetentionPolicy,
        errors=(409,),
    ),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "Delete a retention policy", status=204),
]
