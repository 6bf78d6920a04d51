"""Lists collaborations: of an item including those of parent folders, one by id, and pending ones.

Rule: a collaboration is visible to its collaborator, and to everybody who sees the item unless the folder
shows collaborators only to its owner and co-owners.
"""

import json
from functools import partial
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import collaborations
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls, group_rights
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import marker_pagination, operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus

_LIVING = "(expires_at IS NULL OR expires_at > ?)"
_MINI = ("id",)


def get(read: store.Read, call: calls.Call, wire_id: str) -> Row:
    """Return a collaboration that the caller may see; 404 otherwise."""
    sql = f"SELECT * FROM collaboration WHERE id = ? AND {_LIVING}"
    found = read(sql, calls.parse_id(wire_id), call.store.now())
    if found:
        row = found[0]
        item = read("SELECT * FROM item WHERE id = ?", row["item"])[0]
        is_there = item["status"] == ItemStatus.ACTIVE
        is_mine = row["account"] == call.caller.id or group_rights.is_member(
            read, call.caller.id, row["user_group"]
        )
        if is_there and (is_mine or _shows_collaborators(read, call, item)):
            return row
    raise problems.not_found("collaboration", wire_id)


def _shows_collaborators(read: store.Read, call: calls.Call, item: Row) -> bool:
    """Return whether the caller sees who collaborates on an item."""
    # A link or a bound token shows only the item.
    rights = access_rights.View(read, access_rights.NotifiedUser(call.caller.id, call.caller.bound)).rights(
        item
    )
    if ItemRight.MANAGE in rights:
        return True
    sql = "SELECT 1 FROM folder_terms WHERE non_owners_view = 0"
    hidden = read(
        f"{sql} AND folder IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
        json.dumps(tree_paths.line(item)),
    )
    return ItemRight.SEE in rights and not hidden


async def of_item(kind: ItemKind, call: calls.Call) -> responses.Response:
    item = calls.get_item(call.store.read, call.caller, kind, call.id)
    if item["status"] == ItemStatus.ROOT:
        message = "The root folder is shared with nobody."
        raise problems.Refused(400, "collaborations_not_available_on_root_folder", message)
    params = call.request.query_params
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
    shown = _shows_collaborators(call.store.read, call, item)

    def run(read: store.Read) -> dict[str, Any]:
        rows = read(
            "SELECT c.* FROM collaboration AS c"
            " WHERE c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?3))"
            " AND c.status != 'rejected' AND (c.expires_at IS NULL OR c.expires_at > ?2)"
            f" AND (?4 OR {group_rights.HELD}) ORDER BY c.id",
            call.caller.id,
            call.store.now(),
            json.dumps(tree_paths.line(item)),
            shown,
        )
        page, marker = marker_pagination.cut_page([row for row in rows if row["id"] > after], limit)
        entries = [shape(read, call, row) for row in page]
        return marker_pagination.envelope(entries, limit, marker) | {"total_count": len(rows)}

    return calls.answer(await call.store.query(run))


def of_group(read: store.Read, group: int, *, now: int) -> list[Row]:
    """Return the collaborations of a group."""
    sql = "SELECT c.* FROM collaboration AS c JOIN item ON item.id = c.item WHERE c.user_group = ?"
    return read(f"{sql} AND item.status = 0 AND coalesce(c.expires_at > ?, true) ORDER BY c.id", group, now)


def grantee(read: store.Read, row: Row) -> dict[str, Any] | None:
    """Return the collaborator, a user or a group; None if no user has the address yet."""
    if row["user_group"] is not None:
        return group_rights.mini(read("SELECT * FROM user_group WHERE id = ?", row["user_group"])[0])
    found = read("SELECT * FROM account WHERE id = ?", row["account"])
    return item_serializer.user_mini(found[0]) if found else None


async def pending(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    if params.get("status") != collaborations.PENDING:
        raise problems.invalid("status", "must be pending", reason="invalid_parameter")
    limit = marker_pagination.read_limit(params)
    offset = paging.read_number(params, "offset", 0)
    rows = call.store.read(
        "SELECT c.* FROM collaboration AS c JOIN item ON item.id = c.item WHERE c.account = ?"
        " AND c.status = 'pending' AND item.status = 0 AND (c.expires_at IS NULL OR c.expires_at > ?)"
        " ORDER BY c.id",
        call.caller.id,
        call.store.now(),
    )
    entries = [shape(call.store.read, call, row) for row in rows[offset : offset + limit]]
    return calls.answer({"total_count": len(rows), "limit": limit, "offset": offset, "entries": entries})


def shape(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    """Return a collaboration as JSON, with the requested fields."""
    is_open = row["status"] == collaborations.PENDING
    item = read("SELECT * FROM item WHERE id = ?", row["item"])[0]
    found = read("SELECT * FROM account WHERE id IN (?, ?)", row["account"], row["created_by"])
    users = {one["id"]: one for one in found}
    user = users.get(row["account"])
    accessible_by = grantee(read, row)
    if accessible_by is not None and is_open and user and user["enterprise"] != call.caller.enterprise:
        # Until they accept, others see only the address that was invited.
        accessible_by["name"] = ""
    seen = calls.rights(read, call.caller, item)
    whole = {
        "type": "collaboration",
        "id": str(row["id"]),
        "item": item_serializer.ItemSerializer(read, mini=True).item(item) if seen else None,
        "app_item": None,
        "accessible_by": accessible_by,
        "invite_email": row["email"] if accessible_by is None else None,
        "role": row["role"],
        "expires_at": _moment(row["expires_at"]),
        "can_view_path": bool(row["can_view_path"]),
        "is_access_only": bool(row["access_only"]),
        "status": row["status"],
        "acknowledged_at": _moment(row["acknowledged_at"]),
        "created_by": item_serializer.user_mini(users[row["created_by"]]),
        "created_at": _moment(row["created_at"]),
        "modified_at": _moment(row["modified_at"]),
        "acceptance_requirements_status": {
            "terms_of_service_requirement": {"is_accepted": None, "terms_of_service": None},
            "strong_password_requirement": {
                "enterprise_has_strong_password_required_for_external_users": False,
                "user_has_strong_password": None,
            },
            "two_factor_authentication_requirement": {
                "enterprise_has_two_factor_auth_enabled": False,
                "user_has_two_factor_authentication_enabled": None,
            },
        },
    }
    return marker_pagination.select_fields(whole, _MINI, call.fields)


def _moment(micros: int | None) -> str | None:
    return None if micros is None else item_serializer.to_timestamp(micros)


routes = [
    Operation(
        "GET /collaborations",
        pending,
        "List the invitations that wait for an answer",
        collaborations.CollaborationsPage,
        query=[
            operations.Parameter(
                "status", "`pending`.", {"type": "string", "enum": ["pending"]}, required=True
            ),
            operations.LIMIT,
            operations.OFFSET,
            operations.FIELDS,
        ],
        more="The invitations that the caller has not answered.",
    ),
    *(
        Operation(
            f"GET /{KIND_NAMES[kind]}s/{{id}}/collaborations",
            partial(of_item, kind),
            f"List the collaborations on a {KIND_NAMES[kind]}",
            collaborations.CollaborationsPage,
            query=[*operations.MARKED, operations.OFFSET, operations.FIELDS],
            more="The collaborations and open invitations on an item and on the folders above it.",
        )
        for kind in (ItemKind.FILE, ItemKind.FOLDER)
    ),
]
