"""Legal hold policies: listed, made, changed, released; what they are assigned to and hold is beside.

Deleting is answered at once and takes effect a little later: `active` becomes `releasing`, then `released`.

Rule: administrators only; a policy of another enterprise does not exist.
"""

from sqlite3 import Connection, IntegrityError, Row
from typing import Any

from starlette import responses

from cmsfs.models import legal_holds, names
from cmsfs.models import paging as models_paging
from cmsfs.service import access, fields, markers, operations, problems, protection, store
from cmsfs.service.operations import Operation

_MINI = ("id", "policy_name")

_COUNTS = """
  SELECT type, count(*) AS n FROM legal_hold_assignment WHERE policy = ? AND deleted_at IS NULL GROUP BY type
"""


async def list_policies(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    params = call.request.query_params
    limit, after = markers.read_limit(params), markers.read_marker(params)
    prefix = names.name_key(params.get("policy_name", ""))
    found = call.store.read(
        "SELECT * FROM legal_hold_policy WHERE enterprise = ? AND id > ?"
        " AND substr(name_key, 1, length(?3)) = ?3 ORDER BY id LIMIT ?",
        *(call.caller.enterprise, after, prefix, limit + 1),
    )
    rows, marker = markers.cut(found, limit)
    return access.answer(
        markers.envelope([_shown(call, call.store.read, one) for one in rows], limit, marker)
    )


async def create(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    wish = await call.body(legal_holds.NewLegalHoldPolicy)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        number = insert(conn, call.caller.enterprise, wish, by=call.caller.id, now=call.store.now())
        return _shown(call, read, get_policy(read, call.caller, str(number)))

    return access.answer(await call.store.write(txn), 201)


def insert(
    conn: Connection, enterprise: int, wish: legal_holds.NewLegalHoldPolicy, *, by: int, now: int
) -> int:
    """Make a policy, assigned to nothing; 409 if one in force has its name."""
    started, ended = wish.filter_started_at, wish.filter_ended_at
    try:
        cursor = conn.execute(
            "INSERT INTO legal_hold_policy (enterprise, name, name_key, description, is_ongoing,"
            " filter_started_at, filter_ended_at, created_by, created_at, modified_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?9, ?9)",
            (
                *(enterprise, wish.policy_name, names.name_key(wish.policy_name), wish.description or ""),
                started is None,
                None if started is None else fields.micros(started),
                None if ended is None else fields.micros(ended),
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
    wish = await call.body(legal_holds.UpdateLegalHoldPolicy)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = get_policy(read, call.caller, call.id)
        columns: dict[str, Any] = {}
        if wish.policy_name is not None:
            columns |= {"name": wish.policy_name, "name_key": names.name_key(wish.policy_name)}
        for name in ("description", "release_notes"):
            if (text := getattr(wish, name)) is not None:
                columns[name] = text
        columns["modified_at"] = call.store.now()
        parts = ", ".join(f"{name} = ?" for name in columns)
        try:
            conn.execute(f"UPDATE legal_hold_policy SET {parts} WHERE id = ?", (*columns.values(), row["id"]))
        except IntegrityError:
            raise _name_taken() from None
        return _shown(call, read, get_policy(read, call.caller, call.id))

    return access.answer(await call.store.write(txn))


async def delete(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = get_policy(store.reader(conn), call.caller, call.id)
        now = call.store.now()
        conn.execute(
            "UPDATE legal_hold_policy SET deleted_at = ?1, modified_at = ?1"
            " WHERE id = ?2 AND deleted_at IS NULL",
            (now, row["id"]),
        )

    await call.store.write(txn)
    return responses.Response(status_code=202)


def get_policy(read: store.Read, caller: access.Caller, wire_id: str) -> Row:
    """A policy of the caller's enterprise; 404 if there is none with this id."""
    found = read(
        "SELECT * FROM legal_hold_policy WHERE id = ? AND enterprise = ?",
        *(access.parse_id(wire_id), caller.enterprise),
    )
    if not found:
        raise problems.not_found("legal_hold_policy", wire_id)
    return found[0]


def _name_taken() -> problems.Refused:
    return problems.Refused(409, "conflict", "A legal hold policy with this name exists already.")


def _status(row: Row, now: int) -> str:
    if row["deleted_at"] is None:
        return "active"
    return "releasing" if row["deleted_at"] > now - protection.RELEASE_MICROS else "released"


def _shown(call: access.Call, read: store.Read, row: Row) -> dict[str, Any]:
    counts = dict.fromkeys(legal_holds.AssignmentCounts.model_fields, 0)
    counts |= {one["type"]: one["n"] for one in read(_COUNTS, row["id"])}
    user = read("SELECT * FROM user WHERE id = ?", row["created_by"])[0]
    moments = ("created_at", "modified_at", "deleted_at", "filter_started_at", "filter_ended_at")
    whole: dict[str, Any] = {
        "type": "legal_hold_policy",
        "id": markers.number_id(call, row["id"]),
        "policy_name": row["name"],
        "description": row["description"],
        "release_notes": row["release_notes"],
        "status": _status(row, call.store.now()),
        "is_ongoing": bool(row["is_ongoing"]),
        "assignment_counts": counts,
        "created_by": fields.user_mini(user),
    }
    whole |= {name: None if row[name] is None else fields.moment(row[name]) for name in moments}
    return markers.chosen(whole, _MINI, call.fields)


_PATH = "/legal_hold_policies"
_SHOWN = legal_holds.LegalHoldPolicy
_FIELDS = [operations.FIELDS]

routes = [
    Operation(
        f"GET {_PATH}",
        list_policies,
        "List legal hold policies",
        models_paging.MarkerPage[_SHOWN],
        query=[
            operations.Parameter("policy_name", "What the names begin with."),
            *operations.MARKED,
            *_FIELDS,
        ],
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Create legal hold policy",
        _SHOWN,
        status=201,
        query=_FIELDS,
        body=legal_holds.NewLegalHoldPolicy,
        errors=(409,),
    ),
    Operation(f"GET {_PATH}/{{id}}", get, "Get legal hold policy", _SHOWN, query=_FIELDS),
    Operation(
        f"PUT {_PATH}/{{id}}",
        update,
        "Update legal hold policy",
        _SHOWN,
        query=_FIELDS,
        body=legal_holds.UpdateLegalHoldPolicy,
        errors=(409,),
    ),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "Release legal hold policy", status=202),
]
