"""Groups: list, create, change, delete, and what a group collaborates on.

The rights of groups on items are in collaborations.py and access_rights.py, as for users; members are in
memberships.py.

Rule: administrators create, change and delete groups; others see those that they belong to or may invite.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models import wire_names
from cmsfs.models.enterprise import collaborations as models_collaborations
from cmsfs.models.enterprise import groups
from cmsfs.service import problems
from cmsfs.service.access import calls, group_rights
from cmsfs.service.access.group_rights import GroupRight
from cmsfs.service.api import marker_pagination, operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events_admin
from cmsfs.service.serialize import item_serializer
from cmsfs.service.sharing import collaborations, collaborations_list
from cmsfs.service.storage import store

_OPEN = "all_managed_users"
_DETAILS = ("description", "external_sync_identifier", "provenance")
_COLUMNS = {"invitability_level": "invited_by", "member_viewability_level": "viewed_by"}
_MINI = ("id", "name", "group_type")
_STANDARD = (*_MINI, "created_at", "modified_at")


def get_group(
    read: store.Read, call: calls.Call, wire_id: str, *, needed: GroupRight = GroupRight.SEE
) -> Row:
    """Return a group that the caller may see; 404 otherwise, and 403 without the further rights `needed`."""
    row = group_rights.find(read, call.caller, calls.parse_id(wire_id))
    rights = GroupRight(0) if row is None else group_rights.of(read, call.caller, row)
    if row is None or GroupRight.SEE not in rights:
        raise problems.not_found("group", wire_id)
    if needed not in rights:
        raise problems.Refused(
            403, "forbidden", "This needs an administrator, of the enterprise or the group."
        )
    return row


async def list_groups(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    limit = marker_pagination.read_limit(params)
    offset = paging.read_number(params, "offset", 0)
    term = wire_names.name_key(params.get("filter_term", ""))
    rows = call.store.read(
        "SELECT * FROM user_group WHERE enterprise = ?1 AND substr(name_key, 1, length(?2)) = ?2 AND (?3"
        " OR ?4 IN (invited_by, viewed_by) OR id IN (SELECT user_group FROM membership WHERE account = ?5))"
        " ORDER BY name_key",
        call.caller.enterprise,
        term,
        call.caller.role in ("admin", "coadmin"),
        _OPEN,
        call.caller.id,
    )
    entries = [shape(call.store.read, call, row) for row in rows[offset : offset + limit]]
    return calls.answer({"total_count": len(rows), "limit": limit, "offset": offset, "entries": entries})


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(groups.NewGroup)

    def txn(conn: Connection) -> dict[str, Any]:
        now = call.store.now()
        row = insert(conn, call.caller.enterprise, wish, now=now)
        _log(conn, call, "GROUP_CREATION", row, now=now)
        return shape(store.reader(conn), call, row)

    return calls.answer(await call.store.write(txn), 201)


def insert(conn: Connection, enterprise: int, wish: groups.NewGroup, *, now: int) -> Row:
    """Create a group without members; 409 if its name is in use."""
    values = {
        "enterprise": enterprise,
        "name": wish.name,
        "name_key": wire_names.name_key(wish.name),
        "invited_by": wish.invitability_level or _OPEN,
        "viewed_by": wish.member_viewability_level or _OPEN,
        "details": json.dumps(_details(wish), ensure_ascii=False),
        "now": now,
    }
    found = conn.execute(
        "INSERT INTO user_group (enterprise, name, name_key, invited_by, viewed_by, details, created_at,"
        " modified_at) VALUES (:enterprise, :name, :name_key, :invited_by, :viewed_by, :details, :now, :now)"
        " ON CONFLICT DO NOTHING RETURNING *",
        values,
    ).fetchall()
    if not found:
        raise _name_in_use()
    row: Row = found[0]
    return row


def _details(wish: groups.UpdateGroup) -> dict[str, Any]:
    return {name: getattr(wish, name) for name in _DETAILS if name in wish.model_fields_set}


def _name_in_use() -> problems.Refused:
    return problems.Refused(409, "conflict", "A group with this name exists already.")


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(shape(call.store.read, call, get_group(call.store.read, call, call.id)))


async def update(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(groups.UpdateGroup)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = get_group(read, call, call.id)
        now = call.store.now()
        columns: dict[str, Any] = {"modified_at": now}
        if wish.name is not None:
            columns |= {"name": wish.name, "name_key": wire_names.name_key(wish.name)}
            sql = "SELECT 1 FROM user_group WHERE enterprise = ? AND name_key = ? AND id != ?"
            if read(sql, call.caller.enterprise, columns["name_key"], row["id"]):
                raise _name_in_use()
        for name, column in _COLUMNS.items():
            if (value := getattr(wish, name)) is not None:
                columns[column] = value
        columns["details"] = json.dumps(group_rights.details(row) | _details(wish), ensure_ascii=False)
        parts = ", ".join(f"{name} = ?" for name in columns)
        conn.execute(f"UPDATE user_group SET {parts} WHERE id = ?", (*columns.values(), row["id"]))
        row = get_group(read, call, call.id)
        _log(conn, call, "GROUP_EDITED", row, now=now)
        return shape(read, call, row)

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = get_group(store.reader(conn), call, call.id)
        now = call.store.now()
        collaborations.end_group(conn, row["id"], by=call.caller.id, now=now)
        conn.execute("DELETE FROM user_group WHERE id = ?", (row["id"],))
        _log(conn, call, "GROUP_DELETION", row, now=now)

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def list_collaborations(call: calls.Call) -> responses.Response:
    row = get_group(call.store.read, call, call.id, needed=GroupRight.MANAGE)
    params = call.request.query_params
    limit = marker_pagination.read_limit(params)
    offset = paging.read_number(params, "offset", 0)

    def run(read: store.Read) -> dict[str, Any]:
        rows = collaborations_list.of_group(read, row["id"], now=call.store.now())
        entries = [collaborations_list.shape(read, call, one) for one in rows[offset : offset + limit]]
        return {"total_count": len(rows), "limit": limit, "offset": offset, "entries": entries}

    return calls.answer(await call.store.query(run))


def shape(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    """Return a group as JSON, with the requested fields."""
    details = group_rights.details(row)
    may_invite = GroupRight.INVITE in group_rights.of(read, call.caller, row)
    whole = {
        **group_rights.mini(row),
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        **{name: details.get(name) for name in _DETAILS},
        "invitability_level": row["invited_by"],
        "member_viewability_level": row["viewed_by"],
        "permissions": {"can_invite_as_collaborator": may_invite},
    }
    return marker_pagination.select_fields(whole, _MINI, call.fields, _STANDARD)


def _log(conn: Connection, call: calls.Call, event_type: str, row: Row, *, now: int) -> None:
    source = group_rights.mini(row)
    events_admin.record(conn, row["enterprise"], event_type, source, by=call.caller.id, now=now)


_SHOWN = groups.UserGroup
_BY_OFFSET = (operations.LIMIT, operations.OFFSET)

routes = [
    Operation(
        "GET /groups",
        list_groups,
        "List groups",
        models_paging.OffsetPage[_SHOWN],
        query=[
            operations.Parameter("filter_term", "The beginning of the name."),
            *_BY_OFFSET,
            operations.FIELDS,
        ],
        more="To administrators all, to others those that they are in, may invite or may look into.",
    ),
    Operation(
        "POST /groups",
        create,
        "Create a group",
        _SHOWN,
        status=201,
        query=[operations.FIELDS],
        body=groups.NewGroup,
        errors=(409,),
    ),
    Operation("GET /groups/{id}", get, "Get a group", _SHOWN, query=[operations.FIELDS]),
    Operation(
        "PUT /groups/{id}",
        update,
        "Change a group",
        _SHOWN,
        query=[operations.FIELDS],
        body=groups.UpdateGroup,
        errors=(409,),
    ),
    Operation(
        "DELETE /groups/{id}",
        delete,
        "Delete a group",
        status=204,
        more="What it collaborates on is shared with its members no more.",
    ),
    Operation(
        "GET /groups/{id}/collaborations",
        list_collaborations,
        "List what a group collaborates on",
        models_collaborations.CollaborationsPage,
        query=[*_BY_OFFSET, operations.FIELDS],
        more="For administrators of the enterprise or of the group.",
    ),
]
