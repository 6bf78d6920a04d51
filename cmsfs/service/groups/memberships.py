"""Who is in a group: list, add, change, remove.

A user who joins or leaves a group gets an event for each item that the group collaborates on, as if they had
been invited themselves.

Rule: administrators of the enterprise and of the group manage its members; the group's settings define who
sees them.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models.content import events as models_events
from cmsfs.models.enterprise import groups as models_groups
from cmsfs.service import problems
from cmsfs.service.access import calls, group_rights
from cmsfs.service.access.group_rights import GroupRight
from cmsfs.service.api import marker_pagination, operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events_admin
from cmsfs.service.groups import groups
from cmsfs.service.serialize import item_serializer
from cmsfs.service.sharing import collaborations
from cmsfs.service.storage import store

_MINI = ("id",)


def _get(
    read: store.Read, call: calls.Call, wire_id: str, needed: GroupRight = GroupRight.MEMBERS
) -> tuple[Row, Row]:
    """Return a membership and its group; 404 if the caller may not see it, 403 without further rights."""
    found = read("SELECT * FROM membership WHERE id = ?", calls.parse_id(wire_id))
    group = group_rights.find(read, call.caller, found[0]["user_group"]) if found else None
    if group is not None:
        rights = group_rights.of(read, call.caller, group)
        if GroupRight.MEMBERS in rights or found[0]["account"] == call.caller.id:
            if needed is not GroupRight.MEMBERS:
                groups.get_group(read, call, str(group["id"]), needed=needed)
            return found[0], group
    raise problems.not_found("group_membership", wire_id)


async def of_group(call: calls.Call) -> responses.Response:
    group = groups.get_group(call.store.read, call, call.id, needed=GroupRight.MEMBERS)
    return _page(call, "membership.user_group = ?", group["id"])


async def of_user(call: calls.Call) -> responses.Response:
    if call.id not in (str(call.caller.id), "me"):
        calls.require_admin(call.caller)
        calls.get_user(call.store.read, call.caller, call.id)
    number = call.caller.id if call.id == "me" else calls.parse_id(call.id)
    return _page(call, "membership.account = ?", number)


def _page(call: calls.Call, where: str, number: int | None) -> responses.Response:
    read, params = call.store.read, call.request.query_params
    limit = marker_pagination.read_limit(params)
    offset = paging.read_number(params, "offset", 0)
    total = read(f"SELECT count(*) AS n FROM membership WHERE {where}", number)[0]["n"]
    sql = f"SELECT * FROM membership WHERE {where} ORDER BY id LIMIT ? OFFSET ?"
    entries = [_shape(read, call, row) for row in read(sql, number, limit, offset)]
    return calls.answer({"total_count": total, "limit": limit, "offset": offset, "entries": entries})


async def get(call: calls.Call) -> responses.Response:
    row, _ = _get(call.store.read, call, call.id)
    return calls.answer(_shape(call.store.read, call, row))


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(models_groups.NewMembership)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        group = groups.get_group(read, call, wish.group.id, needed=GroupRight.MANAGE)
        user = calls.get_user(read, call.caller, wish.user.id)
        now = call.store.now()
        row = add_member(
            conn,
            group,
            user,
            role=wish.role,
            permissions=wish.configurable_permissions,
            by=call.caller.id,
            now=now,
        )
        if row is None:
            raise problems.Refused(409, "conflict", "The user is in this group already.")
        return _shape(read, call, row)

    return calls.answer(await call.store.write(txn), 201)


def add_member(
    conn: Connection,
    group: Row,
    user: Row,
    *,
    role: str | None,
    permissions: dict[str, bool] | None = None,
    by: int,
    now: int,
) -> Row | None:
    """Add a user to a group; return None if they are in it already."""
    found = conn.execute(
        "INSERT INTO membership (user_group, account, role, permissions, created_at, modified_at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING RETURNING *",
        (group["id"], user["id"], role or "member", json.dumps(permissions or {}), now),
    ).fetchall()
    if not found:
        return None
    _log(conn, group, user, "GROUP_ADD_USER", by=by, now=now)
    collaborations.record_for_member(conn, group["id"], user["id"], models_events.COLLAB_ADD, by=by, now=now)
    row: Row = found[0]
    return row


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(models_groups.UpdateMembership)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row, _ = _get(read, call, call.id, GroupRight.MANAGE)
        permissions = json.loads(row["permissions"]) | (wish.configurable_permissions or {})
        conn.execute(
            "UPDATE membership SET role = ?, permissions = ?, modified_at = ? WHERE id = ?",
            (wish.role or row["role"], json.dumps(permissions), call.store.now(), row["id"]),
        )
        return _shape(read, call, read("SELECT * FROM membership WHERE id = ?", row["id"])[0])

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row, _ = _get(store.reader(conn), call, call.id, GroupRight.MANAGE)
        remove(conn, row["id"], by=call.caller.id, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


def remove(conn: Connection, number: int, *, by: int, now: int) -> None:
    """Remove a user from a group."""
    read = store.reader(conn)
    row = read("SELECT * FROM membership WHERE id = ?", number)[0]
    group = read("SELECT * FROM user_group WHERE id = ?", row["user_group"])[0]
    user = read("SELECT * FROM account WHERE id = ?", row["account"])[0]
    conn.execute("DELETE FROM membership WHERE id = ?", (number,))
    _log(conn, group, user, "GROUP_REMOVE_USER", by=by, now=now)
    collaborations.record_for_member(
        conn, group["id"], user["id"], models_events.COLLAB_REMOVE, by=by, now=now
    )


def _shape(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    user = read("SELECT * FROM account WHERE id = ?", row["account"])[0]
    group = read("SELECT * FROM user_group WHERE id = ?", row["user_group"])[0]
    whole = {
        "type": "group_membership",
        "id": str(row["id"]),
        "user": item_serializer.user_mini(user),
        "group": group_rights.mini(group),
        "role": row["role"],
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        "configurable_permissions": json.loads(row["permissions"]),
    }
    return marker_pagination.select_fields(whole, _MINI, call.fields)


def _log(conn: Connection, group: Row, user: Row, event_type: str, *, by: int, now: int) -> None:
    details = json.dumps({"group_id": str(group["id"]), "group_name": group["name"]}, ensure_ascii=False)
    source = item_serializer.user_mini(user)
    events_admin.record(conn, group["enterprise"], event_type, source, by=by, now=now, details=details)


_SHOWN = models_groups.GroupMembership
_LIST = models_paging.OffsetPage[_SHOWN]
_PAGE = (operations.LIMIT, operations.OFFSET, operations.FIELDS)

routes = [
    Operation("GET /groups/{id}/memberships", of_group, "List the members of a group", _LIST, query=_PAGE),
    Operation("GET /users/{id}/memberships", of_user, "List the groups of a user", _LIST, query=_PAGE),
    Operation(
        "POST /group_memberships",
        create,
        "Add a user to a group",
        _SHOWN,
        status=201,
        query=[operations.FIELDS],
        body=models_groups.NewMembership,
        errors=(404, 409),
    ),
    Operation(
        "GET /group_memberships/{id}", get, "Get a group membership", _SHOWN, query=[operations.FIELDS]
    ),
    Operation(
        "PUT /group_memberships/{id}",
        update,
        "Change a group membership",
        _SHOWN,
        query=[operations.FIELDS],
        body=models_groups.UpdateMembership,
    ),
    Operation(
        "DELETE /group_memberships/{id}",
        delete,
        "Remove a user from a group",
        status=204,
        more="What only the group shared with them is out of their sight.",
    ),
]
