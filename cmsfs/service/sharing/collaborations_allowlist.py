"""The collaboration allowlist: domains with which an enterprise may collaborate.

Without a list anybody may be invited.  With one, users of other enterprises must have an address in a listed
domain: inbound for our content, outbound for our users on theirs.  Exempt users (exemptions.py) collaborate
with anybody; users with `is_external_collab_restricted` with nobody outside.

Rule: `check` is called for an invitation and again when it is accepted.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging
from cmsfs.models.enterprise import collaborations
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths


def check(read: store.Read, item: Row, invited: Row | None, email: str | None) -> None:
    """Raise 403 unless this user, or a future user of this address, may collaborate on an item."""
    owner = read("SELECT * FROM account WHERE id = ?", item["owner"])[0]
    if invited is not None and invited["enterprise"] == owner["enterprise"]:
        return
    terms = tree_paths.line(item)
    sql = "SELECT 1 FROM folder_terms WHERE restricted = 1"
    if read(f"{sql} AND folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", json.dumps(terms)):
        raise _refused("The folder is shared inside the enterprise only.")
    for one in (owner, invited):
        if one is not None and json.loads(one["details"]).get("is_external_collab_restricted"):
            raise _refused("One of the two may not collaborate outside the enterprise.")
    login = email or (invited["login"] if invited is not None else None)
    _check_side(read, owner, login, ("inbound", "both"))
    if invited is not None:
        _check_side(read, invited, owner["login"], ("outbound", "both"))


def _check_side(read: store.Read, user: Row, other: str | None, directions: tuple[str, str]) -> None:
    """Raise 403 unless a user's enterprise allows them to collaborate with the other address."""
    entries = read("SELECT * FROM allowlist WHERE enterprise = ?", user["enterprise"])
    if not entries:
        return
    if read("SELECT 1 FROM exemption WHERE enterprise = ? AND account = ?", user["enterprise"], user["id"]):
        return
    domain = (other or "").rpartition("@")[2].lower()
    if not any(one["domain"] == domain and one["direction"] in directions for one in entries):
        raise _refused("The domain is not one that the enterprise collaborates with.")


def _refused(message: str) -> problems.Refused:
    return problems.Refused(403, "forbidden_by_policy", message)


async def get_all(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
    sql = "SELECT * FROM allowlist WHERE enterprise = ? AND id > ? ORDER BY id LIMIT ?"
    rows, marker = marker_pagination.cut_page(
        call.store.read(sql, call.caller.enterprise, after, limit + 1), limit
    )
    return calls.answer(marker_pagination.envelope([_shape(call, row) for row in rows], limit, marker))


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(collaborations.NewAllowlistEntry)

    def txn(conn: Connection) -> int:
        made = conn.execute(
            "INSERT INTO allowlist (enterprise, domain, direction, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING RETURNING id",
            (call.caller.enterprise, wish.domain.lower(), wish.direction, call.store.now()),
        ).fetchone()
        if made is None:
            raise problems.Refused(409, "conflict", "The domain is on the list already.")
        return int(made["id"])

    number = await call.store.write(txn)
    return calls.answer(_shape(call, _get(call, str(number))))


async def get(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    return calls.answer(_shape(call, _get(call, call.id)))


async def delete(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    row = _get(call, call.id)
    await call.store.write(lambda conn: conn.execute("DELETE FROM allowlist WHERE id = ?", (row["id"],)))
    return responses.Response(status_code=204)


def _get(call: calls.Call, wire_id: str) -> Row:
    sql = "SELECT * FROM allowlist WHERE enterprise = ? AND id = ?"
    found = call.store.read(sql, call.caller.enterprise, calls.parse_id(wire_id))
    if not found:
        raise problems.not_found("collaboration_whitelist_entry", wire_id)
    return found[0]


def _shape(call: calls.Call, row: Row) -> dict[str, Any]:
    enterprise = call.store.read("SELECT * FROM enterprise WHERE id = ?", row["enterprise"])[0]
    return {
        "type": "collaboration_whitelist_entry",
        "id": str(row["id"]),
        "domain": row["domain"],
        "direction": row["direction"],
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "enterprise": {"type": "enterprise", "id": str(enterprise["id"]), "name": enterprise["name"]},
    }


_PATH = "/collaboration_whitelist_entries"
_SHOWN = collaborations.AllowlistEntry

routes = [
    Operation(
        f"GET {_PATH}",
        get_all,
        "List the domains to collaborate with",
        paging.MarkerPage[_SHOWN],
        query=operations.MARKED,
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Allow a domain",
        _SHOWN,
        body=collaborations.NewAllowlistEntry,
        errors=(409,),
    ),
    Operation(f"GET {_PATH}/{{id}}", get, "Get a domain to collaborate with", _SHOWN),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "Take a domain off the list", status=204),
]
