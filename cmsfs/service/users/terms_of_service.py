"""Terms of service that users of an enterprise have to agree to: one text for each kind of user.

The users' answers are in terms_statuses.py.  Until a user agrees, access to items is refused
(access/terms.py): clients show the text and ask.

Rule: all users read the terms, administrators create and change them.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import terms_of_service
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

KINDS = ("managed", "external")


def find(read: store.Read, call: calls.Call, wire_id: str) -> Row:
    """Return terms of the caller's enterprise; 404 if there are none with this id."""
    sql = "SELECT * FROM terms_of_service WHERE id = ? AND enterprise = ?"
    found = read(sql, calls.parse_id(wire_id), call.caller.enterprise)
    if not found:
        raise problems.not_found("terms_of_service", wire_id)
    return found[0]


def _shape(read: store.Read, row: Row) -> dict[str, Any]:
    enterprise = read("SELECT * FROM enterprise WHERE id = ?", row["enterprise"])[0]
    return {
        "type": "terms_of_service",
        "id": str(row["id"]),
        "status": row["status"],
        "enterprise": {"type": "enterprise", "id": str(enterprise["id"]), "name": enterprise["name"]},
        "tos_type": row["kind"],
        "text": row["text"],
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
    }


async def list_all(call: calls.Call) -> responses.Response:
    kind = call.request.query_params.get("tos_type") or None
    if kind not in (None, *KINDS):
        raise problems.invalid("tos_type", "must be managed or external")
    sql = "SELECT * FROM terms_of_service WHERE enterprise = ? AND coalesce(kind = ?, true) ORDER BY id"
    rows = call.store.read(sql, call.caller.enterprise, kind)
    entries = [_shape(call.store.read, row) for row in rows]
    return calls.answer({"total_count": len(entries), "entries": entries})


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(terms_of_service.NewTerms)

    def txn(conn: Connection) -> dict[str, Any]:
        read, now = store.reader(conn), call.store.now()
        done = conn.execute(
            "INSERT INTO terms_of_service (enterprise, kind, status, text, created_at, modified_at)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
            (call.caller.enterprise, wish.tos_type, wish.status, wish.text, now, now),
        ).fetchone()
        if done is None:
            message = "The enterprise has terms of service for these users already."
            raise problems.Refused(409, "conflict", message)
        return _shape(read, find(read, call, str(done["id"])))

    return calls.answer(await call.store.write(txn), 201)


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(_shape(call.store.read, find(call.store.read, call, call.id)))


async def update(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(terms_of_service.UpdateTerms)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = find(read, call, call.id)
        conn.execute(
            "UPDATE terms_of_service SET status = ?, text = ?, modified_at = ? WHERE id = ?",
            (wish.status or row["status"], wish.text or row["text"], call.store.now(), row["id"]),
        )
        return _shape(read, find(read, call, call.id))

    return calls.answer(await call.store.write(txn))


_SHOWN = terms_of_service.TermsOfService

routes = [
    Operation(
        "GET /terms_of_services",
        list_all,
        "List the terms of service",
        terms_of_service.TermsList,
        query=[operations.choice("tos_type", "For these users.", *KINDS)],
    ),
    Operation(
        "POST /terms_of_services",
        create,
        "Create terms of service",
        _SHOWN,
        status=201,
        body=terms_of_service.NewTerms,
        errors=(409,),
    ),
    Operation("GET /terms_of_services/{id}", get, "Get terms of service", _SHOWN),
    Operation(
        "PUT /terms_of_services/{id}",
        update,
        "Change terms of service",
        _SHOWN,
        body=terms_of_service.UpdateTerms,
    ),
]
