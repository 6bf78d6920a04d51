"""Invitations of users of other enterprises into one's own.

An invitation is pending until the user is in the enterprise; the operator of the service has to do that: no
operation moves a user into another enterprise.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import invites
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(invites.NewInvite)
    if wish.enterprise.id != str(call.caller.enterprise):
        raise problems.not_found("enterprise", wish.enterprise.id)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        login, now = wish.actionable_by.login, call.store.now()
        found = read("SELECT * FROM account WHERE lower(login) = lower(?) AND enterprise != 0", login)
        if not found:
            raise problems.not_found("actionable_by", login)
        if found[0]["enterprise"] == call.caller.enterprise:
            raise problems.Refused(409, "conflict", "The user is in the enterprise already.")
        # A repeated invitation returns the existing one.
        (made,) = read(
            "INSERT INTO invite (enterprise, account, invited_by, created_at, modified_at)"
            " VALUES (?1, ?2, ?3, ?4, ?4)"
            " ON CONFLICT (enterprise, account) DO UPDATE SET modified_at = excluded.modified_at RETURNING *",
            *(call.caller.enterprise, found[0]["id"], call.caller.id, now),
        )
        return _shape(read, call, made)

    return calls.answer(await call.store.write(txn), 201)


async def get(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    sql = "SELECT * FROM invite WHERE id = ? AND enterprise = ?"
    found = call.store.read(sql, calls.parse_id(call.id), call.caller.enterprise)
    if not found:
        raise problems.not_found("invite", call.id)
    return calls.answer(_shape(call.store.read, call, found[0]))


def _shape(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    enterprise = read("SELECT * FROM enterprise WHERE id = ?", row["enterprise"])[0]
    users = {
        name: item_serializer.user_mini(read("SELECT * FROM account WHERE id = ?", row[column])[0])
        for name, column in (("actionable_by", "account"), ("invited_by", "invited_by"))
    }
    is_in = bool(
        read("SELECT 1 FROM account WHERE id = ? AND enterprise = ?", row["account"], row["enterprise"])
    )
    whole = {
        "type": "invite",
        "id": str(row["id"]),
        "invited_to": {"type": "enterprise", "id": str(enterprise["id"]), "name": enterprise["name"]},
        **users,
        "status": "accepted" if is_in else "pending",
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
    }
    return marker_pagination.select_fields(whole, ("id",), call.fields)


routes = [
    Operation(
        "POST /invites",
        create,
        "Invite a user of another enterprise",
        invites.Invite,
        status=201,
        query=[operations.FIELDS],
        body=invites.NewInvite,
        errors=(404, 409),
    ),
    Operation("GET /invites/{id}", get, "Get an invitation", invites.Invite, query=[operations.FIELDS]),
]
