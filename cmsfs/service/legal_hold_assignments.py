"""What a legal hold is assigned to, and the files and versions on hold by it.

A hold on a user covers what they own and what they made; `ownership` and `interactions` are one of the two.

Rule: an assignment covers what is there and what comes; what is moved away stays covered (protection.py).
"""

from sqlite3 import Connection, IntegrityError, Row
from typing import Any, get_args

from starlette import responses

from cmsfs.models import items, names
from cmsfs.models import legal_holds as shapes
from cmsfs.models import paging as models_paging
from cmsfs.service import access, fields, legal_holds, markers, operations, problems, protection, store
from cmsfs.service.kinds import Kind
from cmsfs.service.operations import Operation

_MINI = ("id",)

_SELECT = """
  SELECT a.*, p.name AS policy_name, p.deleted_at AS policy_deleted_at, u.name, u.login
    FROM legal_hold_assignment AS a JOIN legal_hold_policy AS p ON p.id = a.policy
    JOIN user AS u ON u.id = a.assigned_by WHERE p.enterprise = ?
"""


async def list_assignments(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    params = call.request.query_params
    if not (policy := params.get("policy_id")):
        raise problems.invalid("policy_id", "is required", reason="missing_parameter")
    limit, after = markers.read_limit(params), markers.read_marker(params)
    sql = f"{_SELECT} AND a.policy = ? AND a.id > ? AND a.deleted_at IS NULL"
    args: list[Any] = [
        call.caller.enterprise,
        legal_holds.get_policy(call.store.read, call.caller, policy)["id"],
        after,
    ]
    if kind := params.get("assign_to_type"):
        sql += " AND a.type = ?"
        args.append(kind)
    if target := params.get("assign_to_id"):
        sql += " AND a.target = ?"
        args.append(call.caller.root if target == names.ROOT_ID else access.parse_id(target))
    rows, marker = markers.cut(call.store.read(f"{sql} ORDER BY a.id LIMIT ?", *args, limit + 1), limit)
    return access.answer(markers.envelope([_shown(call, one) for one in rows], limit, marker))


async def create(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    wish = await call.body(shapes.NewAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        policy = legal_holds.get_policy(read, call.caller, wish.policy_id)
        if policy["deleted_at"] is not None:
            raise problems.Refused(409, "conflict", "The policy is released.")
        target = _target(read, call.caller, wish.assign_to)
        number = assign(
            *(conn, policy["id"], wish.assign_to.type, target), by=call.caller.id, now=call.store.now()
        )
        return _shown(call, _get(read, call.caller, str(number)))

    return access.answer(await call.store.write(txn), 201)


def assign(conn: Connection, policy: int, kind: shapes.AssignType, target: int, *, by: int, now: int) -> int:
    """Hold what is there and what comes; 409 if that is assigned already."""
    try:
        cursor = conn.execute(
            "INSERT INTO legal_hold_assignment (policy, type, target, assigned_by, assigned_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (policy, kind, target, by, now),
        )
    except IntegrityError:
        raise problems.Refused(409, "conflict", "The policy is assigned to this already.") from None
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _target(read: store.Read, caller: access.Caller, wish: shapes.AssignTo) -> int:
    """The number of what is to be held; 404 if the enterprise has no such thing."""
    found: Row | None
    if wish.type in ("file", "folder"):
        kind = Kind.FILE if wish.type == "file" else Kind.FOLDER
        found = access.find_enterprise_item(read, caller, kind, wish.id)
    elif wish.type == "file_version":
        rows = read(
            "SELECT v.* FROM version AS v JOIN item AS f ON f.id = v.file JOIN user AS u ON u.id = f.owner"
            " WHERE v.id = ? AND u.enterprise = ?",
            *(access.parse_id(wish.id), caller.enterprise),
        )
        found = rows[0] if rows else None
    else:
        found = access.get_user(read, caller, wish.id)
    if found is None:
        raise problems.not_found(wish.type, wish.id)
    number: int = found["id"]
    return number


async def get(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    return access.answer(_shown(call, _get(call.store.read, call.caller, call.id)))


async def delete(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = _get(store.reader(conn), call.caller, call.id)
        if row["deleted_at"] is not None:
            raise problems.Refused(409, "conflict", "This assignment is being released already.")
        conn.execute(
            "UPDATE legal_hold_assignment SET deleted_at = ? WHERE id = ?", (call.store.now(), row["id"])
        )

    await call.store.write(txn)
    return responses.Response(status_code=202)


async def files_on_hold(call: access.Call) -> responses.Response:
    """The files whose current version is on hold."""
    return await _held(call, current=True)


async def file_versions_on_hold(call: access.Call) -> responses.Response:
    """The earlier versions on hold."""
    return await _held(call, current=False)


async def _held(call: access.Call, *, current: bool) -> responses.Response:
    access.require_admin(call.caller)
    assignment = _get(call.store.read, call.caller, call.id)["id"]
    params = call.request.query_params
    limit, after = markers.read_limit(params), markers.read_marker(params)
    now = call.store.now()

    def run(read: store.Read) -> dict[str, Any]:
        found = protection.held(read, assignment, current=current, after=after, limit=limit + 1, now=now)
        rows, marker = markers.cut(found, limit)
        shaper = fields.Shaper(read, call.fields, mini=True)
        entries = shaper.items(rows) if current else [_version(row) for row in rows]
        return markers.envelope(entries, limit, marker)

    return access.answer(await call.store.query(run))


def _get(read: store.Read, caller: access.Caller, wire_id: str) -> Row:
    found = read(f"{_SELECT} AND a.id = ?", caller.enterprise, access.parse_id(wire_id))
    if not found:
        raise problems.not_found("legal_hold_policy_assignment", wire_id)
    return found[0]


def _version(row: Row) -> dict[str, Any]:
    return {
        "type": "file_version",
        "id": str(row["id"]),
        "sha1": row["sha1"],
        "name": row["name"],
        "size": row["size"],
        "created_at": fields.moment(row["created_at"]),
        "file": {"type": "file", "id": str(row["file"])},
    }


def _shown(call: access.Call, row: Row) -> dict[str, Any]:
    target = names.ROOT_ID if row["target"] == call.caller.root else str(row["target"])
    ended = row["deleted_at"] or row["policy_deleted_at"]
    whole: dict[str, Any] = {
        "type": "legal_hold_policy_assignment",
        "id": str(row["id"]),
        "legal_hold_policy": {
            "type": "legal_hold_policy",
            "id": markers.number_id(call, row["policy"]),
            "policy_name": row["policy_name"],
        },
        "assigned_to": {"type": row["type"], "id": target},
        "assigned_by": {
            "type": "user",
            "id": str(row["assigned_by"]),
            "name": row["name"],
            "login": row["login"] or "",
        },
        "assigned_at": fields.moment(row["assigned_at"]),
        "deleted_at": None if ended is None else fields.moment(ended),
    }
    return markers.chosen(whole, _MINI, call.fields)


_PATH = "/legal_hold_policy_assignments"
_PAGE = (*operations.MARKED, operations.FIELDS)

routes = [
    Operation(
        f"GET {_PATH}",
        list_assignments,
        "List what a legal hold policy is assigned to",
        models_paging.MarkerPage[shapes.Assignment],
        query=[
            operations.Parameter("policy_id", "The policy.", required=True),
            operations.choice("assign_to_type", "What it is assigned to.", *get_args(shapes.AssignType)),
            operations.Parameter("assign_to_id", "The id of that."),
            *_PAGE,
        ],
        errors=(404,),
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Assign a legal hold policy",
        shapes.Assignment,
        status=201,
        query=[operations.FIELDS],
        body=shapes.NewAssignment,
        errors=(404, 409),
    ),
    Operation(
        f"GET {_PATH}/{{id}}",
        get,
        "Get an assignment of a legal hold policy",
        shapes.Assignment,
        query=[operations.FIELDS],
    ),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "Unassign a legal hold policy", status=202, errors=(409,)),
    Operation(
        f"GET {_PATH}/{{id}}/files_on_hold",
        files_on_hold,
        "List the files on hold",
        models_paging.MarkerPage[items.File],
        query=_PAGE,
    ),
    Operation(
        f"GET {_PATH}/{{id}}/file_versions_on_hold",
        file_versions_on_hold,
        "List the earlier versions on hold",
        models_paging.MarkerPage[shapes.VersionOnHold],
        query=_PAGE,
    ),
]
