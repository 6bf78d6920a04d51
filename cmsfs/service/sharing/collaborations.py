"""Collaborations: create, change, accept, reject, remove.  Lists are in collaborations_list.py.

Within the enterprise, and for groups, a collaboration takes effect at once; users of other enterprises, and
unknown addresses, are invited and have to accept.  The role `owner` transfers the item: it moves into the new
owner's root, and the previous owner stays as a collaborator.

Rule: an item has one collaboration per user and one per group; a rejected one is replaced by the next.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import events as models_events
from cmsfs.models.enterprise import collaborations
from cmsfs.service import problems
from cmsfs.service.access import calls, group_rights, roles
from cmsfs.service.access.group_rights import GroupRight
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import items, ownership
from cmsfs.service.events import events, webhook_triggers
from cmsfs.service.serialize import item_serializer
from cmsfs.service.sharing import collaborations_allowlist, collaborations_list
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KINDS, ItemKind, ItemStatus

_INSERT = """
  INSERT INTO collaboration (item, enterprise, account, user_group, email, role, status, can_view_path,
    access_only, expires_at, created_by, created_at, modified_at, acknowledged_at)
  VALUES (:item, :enterprise, :account, :user_group, :email, :role, :status, :path,
    :access_only, :expires_at, :by, :now, :now, :acknowledged_at)
  RETURNING *
"""


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(collaborations.NewCollaboration)

    def txn(conn: Connection) -> dict[str, Any]:
        row = _invite(conn, call, wish)
        return collaborations_list.shape(store.reader(conn), call, row)

    return calls.answer(await call.store.write(txn), 201)


def _invite(conn: Connection, call: calls.Call, wish: collaborations.NewCollaboration) -> Row:
    read = store.reader(conn)
    kind = KINDS[wish.item.type]
    item = calls.get_item(read, call.caller, kind, wish.item.id)
    if item["status"] == ItemStatus.ROOT:
        message = "The root folder cannot be shared."
        raise problems.Refused(400, "collaborations_not_available_on_root_folder", message)
    rights = calls.rights(read, call.caller, item)
    _check_role(kind, rights, wish.role)
    if wish.can_view_path:
        _check_path(kind, rights)
    now = call.store.now()
    owner = read("SELECT * FROM account WHERE id = ?", item["owner"])[0]
    user, email, group = None, None, None
    if wish.accessible_by.type == "group":
        group = _invited_group(read, call, wish.accessible_by, owner["enterprise"])
    else:
        user, email = _invited(read, wish.accessible_by)
        collaborations_allowlist.check(read, item, user, email)
    _check_not_collaborating(conn, item, user, email, group, now=now)
    at_once = group is not None or (user is not None and user["enterprise"] == owner["enterprise"])
    row = insert(
        conn,
        item,
        role=wish.role,
        account=None if user is None else user["id"],
        user_group=None if group is None else group["id"],
        email=email,
        enterprise=owner["enterprise"],
        status=collaborations.ACCEPTED if at_once else collaborations.PENDING,
        path=bool(wish.can_view_path),
        access_only=bool(wish.is_access_only),
        expires_at=_parse_expiry(wish.expires_at, now),
        by=call.caller.id,
        now=now,
        acknowledged_at=now if at_once else None,
    )
    _record_event(
        conn,
        row,
        models_events.COLLAB_ADD if at_once else models_events.COLLAB_INVITE,
        by=call.caller.id,
        now=now,
    )
    if at_once:
        # Created and accepted in one step; otherwise only an invitation is created.
        by, details = call.caller.id, _details(conn, row)
        webhook_triggers.enqueue(conn, "COLLABORATION.CREATED", item, by=by, now=now, details=details)
    return row


def insert(conn: Connection, item: Row, **values: Any) -> Row:
    """Insert a collaboration, without events."""
    row: Row = conn.execute(_INSERT, {"user_group": None} | values | {"item": item["id"]}).fetchone()
    return row


def _invited(read: store.Read, wish: collaborations.Invited) -> tuple[Row | None, str | None]:
    """Return the invited user, or None and the address if it has no user yet."""
    if wish.id is not None:
        # Deleted users stay as rows of enterprise 0.
        found = read("SELECT * FROM account WHERE id = ? AND enterprise != 0", calls.parse_id(wish.id))
        if not found:
            raise problems.not_found("user", wish.id)
        return found[0], None
    if wish.login is None:
        raise problems.invalid("accessible_by", "id or login is required", reason="missing_parameter")
    alias = "id = (SELECT account FROM email_alias WHERE email = lower(?1))"
    found = read(f"SELECT * FROM account WHERE lower(login) = lower(?1) OR {alias}", wish.login)
    return (found[0] if found else None), wish.login.lower()


def _invited_group(read: store.Read, call: calls.Call, wish: collaborations.Invited, enterprise: int) -> Row:
    """Return the invited group; 403 if the caller may not invite it, 404 if it is of another enterprise."""
    if wish.id is None:
        raise problems.invalid("accessible_by", "id is required for a group", reason="missing_parameter")
    group = group_rights.find(read, call.caller, calls.parse_id(wish.id))
    rights = GroupRight(0) if group is None else group_rights.of(read, call.caller, group)
    if group is None or GroupRight.SEE not in rights or group["enterprise"] != enterprise:
        raise problems.not_found("group", wish.id)
    if GroupRight.INVITE not in rights:
        raise _insufficient("You may not invite this group.")
    return group


def _check_not_collaborating(
    conn: Connection, item: Row, user: Row | None, email: str | None, group: Row | None, *, now: int
) -> None:
    """Raise 400 if they collaborate already; delete a rejected or expired collaboration."""
    number = None if user is None else user["id"]
    party = None if group is None else group["id"]
    found = conn.execute(
        "SELECT * FROM collaboration"
        " WHERE item = ? AND (account = ? OR user_group = ? OR (account IS NULL AND email = ?))",
        (item["id"], number, party, email),
    ).fetchone()
    over = found is not None and (
        found["status"] == collaborations.REJECTED
        or (found["expires_at"] is not None and found["expires_at"] <= now)
    )
    if (found is not None and not over) or number == item["owner"]:
        message = "User is already a collaborator." if group is None else "The group collaborates already."
        raise problems.Refused(400, "user_already_collaborator", message)
    if found is not None:
        conn.execute("DELETE FROM collaboration WHERE id = ?", (found["id"],))


def _check_role(kind: ItemKind, rights: ItemRight, role: str) -> None:
    """Raise 403 if the rights do not allow an invitation with this role; 400 if files do not have it."""
    if ItemRight.INVITE not in rights:
        raise _insufficient("You may see this item, but invite nobody to it.")
    if role not in roles.offered(kind, roles.ALL):
        raise problems.invalid("role", f"a file has no {role}s, only editors and viewers")
    if role not in roles.offered(kind, rights):
        raise _insufficient("Only the owner and co-owners make co-owners.")


def _check_path(kind: ItemKind, rights: ItemRight) -> None:
    if kind is not ItemKind.FOLDER:
        raise problems.invalid("can_view_path", "is for folders only")
    if ItemRight.MANAGE not in rights:
        raise _insufficient("Only the owner and co-owners show the folders above.")


def _parse_expiry(when: Any, now: int) -> int | None:
    if when is None:
        return None
    ends = item_serializer.micros(when)
    if ends <= now:
        raise problems.invalid("expires_at", "must be in the future")
    return ends


async def get(call: calls.Call) -> responses.Response:
    row = collaborations_list.get(call.store.read, call, call.id)
    return calls.answer(collaborations_list.shape(call.store.read, call, row))


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(collaborations.UpdateCollaboration)

    def txn(conn: Connection) -> dict[str, Any] | None:
        read = store.reader(conn)
        row = collaborations_list.get(read, call, call.id)
        now = call.store.now()
        if wish.role == roles.OWNER:
            _make_owner(conn, call, row, now=now)
            return None
        columns = _changes(read, call, row, wish, now=now)
        if columns:
            row = _change(conn, call, row, columns, now=now)
        return collaborations_list.shape(read, call, row)

    found = await call.store.write(txn)
    return responses.Response(status_code=204) if found is None else calls.answer(found)


def _changes(
    read: store.Read, call: calls.Call, row: Row, wish: collaborations.UpdateCollaboration, *, now: int
) -> dict[str, Any]:
    """Return the columns that a request changes."""
    item = read("SELECT * FROM item WHERE id = ?", row["item"])[0]
    rights = calls.rights(read, call.caller, item)
    columns: dict[str, Any] = {}
    if wish.status is not None and wish.status != row["status"]:
        if row["account"] != call.caller.id:
            raise _insufficient("Only who is invited accepts or rejects.")
        if row["status"] != collaborations.PENDING:
            message = "The invitation was answered already."
            raise problems.Refused(400, "invalid_status", message)
        if wish.status == collaborations.ACCEPTED:
            invited = read("SELECT * FROM account WHERE id = ?", row["account"])[0]
            collaborations_allowlist.check(read, item, invited, None)
        columns |= {"status": wish.status, "acknowledged_at": now}
    given = wish.model_fields_set
    if wish.role is not None and wish.role != row["role"]:
        _check_may_change(call, rights, row)
        _check_role(ItemKind(item["kind"]), rights, wish.role)
        columns["role"] = wish.role
    if "expires_at" in given:
        _check_may_change(call, rights, row)
        columns["expires_at"] = _parse_expiry(wish.expires_at, now)
    if wish.can_view_path is not None and wish.can_view_path != bool(row["can_view_path"]):
        if ItemRight.OWN not in rights:
            raise _insufficient("Only the owner says whether the folders above are shown.")
        _check_path(ItemKind(item["kind"]), rights)
        columns["can_view_path"] = wish.can_view_path
    return columns


def _check_may_change(call: calls.Call, rights: ItemRight, row: Row) -> None:
    """Raise 403 unless the caller may change this collaboration of somebody else."""
    if ItemRight.INVITE not in rights or (row["role"] == roles.CO_OWNER and ItemRight.MANAGE not in rights):
        raise _insufficient("You may not change this collaboration.")
    if row["account"] == call.caller.id:
        raise _insufficient("Nobody changes their own role.")


def _change(conn: Connection, call: calls.Call, row: Row, columns: dict[str, Any], *, now: int) -> Row:
    parts = "".join(f", {name} = ?" for name in columns)
    conn.execute(
        f"UPDATE collaboration SET modified_at = ?{parts} WHERE id = ?", (now, *columns.values(), row["id"])
    )
    row = conn.execute("SELECT * FROM collaboration WHERE id = ?", (row["id"],)).fetchone()
    if columns.get("status") == collaborations.ACCEPTED:
        _record_event(conn, row, models_events.COLLAB_ADD, by=call.caller.id, now=now)
    elif columns.get("status") == collaborations.REJECTED:
        _record_event(conn, row, models_events.COLLAB_REMOVE, by=call.caller.id, now=now)
    else:
        _record_event(conn, row, models_events.COLLAB_ROLE, by=call.caller.id, now=now)
    return row


def _make_owner(conn: Connection, call: calls.Call, row: Row, *, now: int) -> None:
    """Make a collaborator the owner."""
    read = store.reader(conn)
    item = read("SELECT * FROM item WHERE id = ?", row["item"])[0]
    if ItemRight.OWN not in calls.rights(read, call.caller, item):
        raise _insufficient("Only the owner hands an item over.")
    found = read("SELECT * FROM account WHERE id = ?", row["account"])
    if row["status"] != collaborations.ACCEPTED or not found:
        raise problems.Refused(400, "invalid_status", "Who has not accepted cannot become the owner.")
    new = found[0]
    if new["enterprise"] != call.caller.enterprise:
        raise problems.Refused(403, "forbidden_by_policy", "An item stays in its enterprise.")
    root = items.find(conn, new["root"])
    try:
        items.check_free(read, root["id"], item["name"])
    except problems.Refused as refused:
        # The conflicting item is the other user's: do not show it.
        raise problems.Refused(refused.status, refused.code, refused.message) from None
    columns = items.move_subtree(conn, item, root, item["name"])
    items.add_to_folder_sizes(conn, item["path"], -item["size"])
    items.add_to_folder_sizes(conn, columns["path"], item["size"])
    ownership.change_owner(conn, item, new["id"], path=columns["path"], now=now)
    kind = ItemKind(item["kind"])
    insert(
        conn,
        item,
        role=roles.CO_OWNER if roles.CO_OWNER in roles.offered(kind, roles.ALL) else "editor",
        account=item["owner"],
        email=None,
        enterprise=new["enterprise"],
        status=collaborations.ACCEPTED,
        path=False,
        access_only=False,
        expires_at=None,
        by=call.caller.id,
        now=now,
        acknowledged_at=now,
    )
    items.touch(conn, item, by=call.caller.id, now=now, event=models_events.MOVE, **columns)


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row = collaborations_list.get(read, call, call.id)
        if row["account"] != call.caller.id:
            item = read("SELECT * FROM item WHERE id = ?", row["item"])[0]
            _check_may_change(call, calls.rights(read, call.caller, item), row)
        conn.execute("DELETE FROM collaboration WHERE id = ?", (row["id"],))
        _record_event(conn, row, models_events.COLLAB_REMOVE, by=call.caller.id, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


def end_all(conn: Connection, user: int, *, by: int, now: int) -> None:
    """End all collaborations of and on a user's items, before the user is deleted."""
    rows = conn.execute(
        "SELECT c.* FROM collaboration AS c JOIN item ON item.id = c.item"
        " WHERE c.account = ?1 OR item.owner = ?1",
        (user,),
    ).fetchall()
    for row in rows:
        conn.execute("DELETE FROM collaboration WHERE id = ?", (row["id"],))
        _record_event(conn, row, models_events.COLLAB_REMOVE, by=by, now=now)


def end_group(conn: Connection, group: int, *, by: int, now: int) -> None:
    """End all collaborations of a group, before it is deleted."""
    for row in conn.execute("SELECT * FROM collaboration WHERE user_group = ?", (group,)).fetchall():
        conn.execute("DELETE FROM collaboration WHERE id = ?", (row["id"],))
        _record_event(conn, row, models_events.COLLAB_REMOVE, by=by, now=now)


def record_for_member(conn: Connection, group: int, user: int, event_type: str, *, by: int, now: int) -> None:
    """Record an event for a user who joined or left a group, for each of its collaborations."""
    for row in collaborations_list.of_group(store.reader(conn), group, now=now):
        item = items.find(conn, row["item"])
        events.record_for_users(conn, item, event_type, [user], by=by, now=now, details=_details(conn, row))


def _record_event(conn: Connection, row: Row, event_type: str, *, by: int, now: int) -> None:
    """Record an event for everybody who sees the item, and for the collaborator."""
    item = items.find(conn, row["item"])
    besides = group_rights.members(store.reader(conn), row["user_group"])
    besides += [] if row["account"] is None else [row["account"]]
    events.record(conn, item, event_type, by=by, now=now, details=_details(conn, row), besides=besides)


def _details(conn: Connection, row: Row) -> dict[str, Any]:
    """Return the event details of a collaboration."""
    grantee = collaborations_list.grantee(store.reader(conn), row)
    return {
        "collab_id": str(row["id"]),
        "role": row["role"],
        "status": row["status"],
        "accessible_by": grantee,
    }


def _insufficient(message: str) -> problems.Refused:
    return problems.Refused(403, "access_denied_insufficient_permissions", message)


_SHOWN = collaborations.Collaboration

routes = [
    Operation(
        "POST /collaborations",
        create,
        "Invite somebody to an item",
        _SHOWN,
        status=201,
        query=[operations.FIELDS],
        body=collaborations.NewCollaboration,
        errors=(404, 409),
    ),
    Operation("GET /collaborations/{id}", get, "Get a collaboration", _SHOWN, query=[operations.FIELDS]),
    Operation(
        "PUT /collaborations/{id}",
        update,
        "Change a collaboration",
        _SHOWN,
        query=[operations.FIELDS],
        body=collaborations.UpdateCollaboration,
        also={204: None},
        errors=(409,),
    ),
    Operation("DELETE /collaborations/{id}", delete, "End a collaboration", status=204),
    *collaborations_list.routes,
]
