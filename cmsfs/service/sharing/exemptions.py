"""Users who are exempt from the collaboration allowlist.

Rule: administrators only; an exemption of another enterprise does not exist.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging
from cmsfs.models.enterprise import exemptions
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

_SELECT = """
  SELECT exemption.*, account.name, account.login, enterprise.name AS enterprise_name FROM exemption
    JOIN account ON account.id = exemption.account JOIN enterprise ON enterprise.id = exemption.enterprise
    WHERE exemption.enterprise = ?
"""


async def list_exemptions(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
    sql = f"{_SELECT} AND exemption.id > ? ORDER BY exemption.id LIMIT ?"
    rows, marker = marker_pagination.cut_page(
        call.store.read(sql, call.caller.enterprise, after, limit + 1), limit
    )
    return calls.answer(marker_pagination.envelope([_whole(row) for row in rows], limit, marker))


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(exemptions.NewExemption)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        user = calls.get_user(read, call.caller, wish.user.id)
        number = add(conn, call.caller.enterprise, user["id"], now=call.store.now())
        return _whole(_get(read, call.caller, str(number)))

    return calls.answer(await call.store.write(txn))


def add(conn: Connection, enterprise: int, user: int, *, now: int) -> int:
    """Exempt a user; 409 if they are exempt already."""
    made = conn.execute(
        "INSERT INTO exemption (enterprise, account, created_at, modified_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING RETURNING id",
        (enterprise, user, now, now),
    ).fetchone()
    if made is None:
        raise problems.Refused(409, "conflict", "The user is exempt already.")
    return int(made["id"])


async def get(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    return calls.answer(_whole(_get(call.store.read, call.caller, call.id)))


async def delete(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = _get(store.reader(conn), call.caller, call.id)
        conn.execute("DELETE FROM exemption WHERE id = ?", (row["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _get(read: store.Read, caller: calls.Caller, wire_id: str) -> Row:
    found = read(f"{_SELECT} AND exemption.id = ?", caller.enterprise, calls.parse_id(wire_id))
    if not found:
        raise problems.not_found("collaboration_whitelist_exempt_target", wire_id)
    return found[0]


def _whole(row: Row) -> dict[str, Any]:
    return {
        "type": "collaboration_whitelist_exempt_target",
        "id": str(row["id"]),
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        "enterprise": {"type": "enterprise", "id": str(row["enterprise"]), "name": row["enterprise_name"]},
        "user": {
            "type": "user",
            "id": str(row["account"]),
            "name": row["name"],
            "login": row["login"] or "",
        },
    }


_PATH = "/collaboration_whitelist_exempt_targets"
_SHOWN = exemptions.Exemption

routes = [
    Operation(
        f"GET {_PATH}",
        list_exemptions,
        "List collaboration exemptions",
        paging.MarkerPage[_SHOWN],
        query=operations.MARKED,
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Exempt a user",
        _SHOWN,
        body=exemptions.NewExemption,
        errors=(404, 409),
    ),
    Operation(f"GET {_PATH}/{{id}}", get, "Get collaboration exemption", _SHOWN),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "End a collaboration exemption", status=204),
]
