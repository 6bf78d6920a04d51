"""Which users have accepted or declined the terms of service.

Rule: users answer for themselves, administrators for anybody.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import terms_of_service as models_terms
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events_admin
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.users import terms_of_service

_KIND = "terms_of_service_user_status"


def _user(read: store.Read, call: calls.Call, wire_id: str) -> Row:
    """Return the user of a status; 403 for another user's, except for administrators."""
    if wire_id != str(call.caller.id):
        calls.require_admin(call.caller)
    return calls.get_user(read, call.caller, wire_id)


def _shape(read: store.Read, row: Row) -> dict[str, Any]:
    return {
        "type": _KIND,
        "id": str(row["id"]),
        "tos": {"type": "terms_of_service", "id": str(row["terms"])},
        "user": item_serializer.user_mini(read("SELECT * FROM account WHERE id = ?", row["account"])[0]),
        "is_accepted": bool(row["is_accepted"]),
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
    }


async def list_of_terms(call: calls.Call) -> responses.Response:
    params, read = call.request.query_params, call.store.read
    if not (wire_id := params.get("tos_id")):
        raise problems.invalid("tos_id", "is required", reason="missing_parameter")
    terms = terms_of_service.find(read, call, wire_id)
    user = _user(read, call, params.get("user_id") or str(call.caller.id))
    rows = read("SELECT * FROM terms_status WHERE terms = ? AND account = ?", terms["id"], user["id"])
    return calls.answer({"total_count": len(rows), "entries": [_shape(read, row) for row in rows]})


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(models_terms.NewTermsStatus)

    def txn(conn: Connection) -> dict[str, Any]:
        read, now = store.reader(conn), call.store.now()
        terms = terms_of_service.find(read, call, wish.tos.id)
        user = _user(read, call, wish.user.id)
        done = conn.execute(
            "INSERT INTO terms_status (terms, account, is_accepted, created_at, modified_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING *",
            (terms["id"], user["id"], wish.is_accepted, now, now),
        ).fetchone()
        if done is None:
            raise problems.Refused(409, "conflict", "The user has said so already; change the status.")
        _log(conn, call, user, wish.is_accepted)
        return _shape(read, done)

    return calls.answer(await call.store.write(txn), 201)


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(models_terms.UpdateTermsStatus)
    if wish.is_accepted is None:
        raise problems.invalid("is_accepted", "is missing", reason="missing_parameter")

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        sql = (
            "SELECT terms_status.* FROM terms_status JOIN terms_of_service AS t ON t.id = terms"
            " WHERE terms_status.id = ? AND enterprise = ?"
        )
        found = read(sql, calls.parse_id(call.id), call.caller.enterprise)
        mine = [row for row in found if row["account"] == call.caller.id]
        if not mine and (not found or call.caller.role not in ("admin", "coadmin")):
            raise problems.not_found(_KIND, call.id)
        row = found[0]
        conn.execute(
            "UPDATE terms_status SET is_accepted = ?, modified_at = ? WHERE id = ?",
            (wish.is_accepted, call.store.now(), row["id"]),
        )
        _log(conn, call, calls.get_user(read, call.caller, str(row["account"])), bool(wish.is_accepted))
        return _shape(read, read("SELECT * FROM terms_status WHERE id = ?", row["id"])[0])

    return calls.answer(await call.store.write(txn))


def _log(conn: Connection, call: calls.Call, user: Row, is_accepted: bool) -> None:
    event_type = "TERMS_OF_SERVICE_ACCEPT" if is_accepted else "TERMS_OF_SERVICE_REJECT"
    source = item_serializer.user_mini(user)
    events_admin.record(conn, user["enterprise"], event_type, source, by=call.caller.id, now=call.store.now())


_SHOWN = models_terms.TermsStatus

routes = [
    Operation(
        "GET /terms_of_service_user_statuses",
        list_of_terms,
        "List whether a user has agreed to terms of service",
        models_terms.TermsStatuses,
        query=[
            operations.Parameter("tos_id", "The terms.", required=True),
            operations.Parameter("user_id", "The user; without it, the one who asks."),
        ],
        errors=(404,),
    ),
    Operation(
        "POST /terms_of_service_user_statuses",
        create,
        "Agree to terms of service, or decline them",
        _SHOWN,
        status=201,
        body=models_terms.NewTermsStatus,
        errors=(404, 409),
    ),
    Operation(
        "PUT /terms_of_service_user_statuses/{id}",
        update,
        "Change whether a user has agreed",
        _SHOWN,
        body=models_terms.UpdateTermsStatus,
    ),
]
