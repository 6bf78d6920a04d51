"""Users: the current one, by id, the list; administrators create, change and delete them.

Managed users and app users belong to the caller's enterprise.  External users belong to another one and
collaborate here: they are found only by the complete login, and show little more than a name.

Rule: the row of a deleted user is kept, without login and in enterprise 0, because versions of others refer
to it.
"""

import json
import zoneinfo
from functools import cache
from sqlite3 import Connection, Row
from typing import Any

from starlette import datastructures, responses

from cmsfs.models import wire_names
from cmsfs.models.enterprise import users
from cmsfs.service import problems
from cmsfs.service.access import callers, calls, protection
from cmsfs.service.api import marker_pagination, operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events_admin
from cmsfs.service.serialize import item_serializer
from cmsfs.service.sharing import collaborations
from cmsfs.service.storage import app_users, store

MAX_OFFSET = 10_000
GIB = 1024**3
SPACE_AMOUNT = 100 * GIB
MAX_UPLOAD_SIZE = 50 * GIB

_STANDARD = (
    *("id", "name", "login", "created_at", "modified_at", "language", "timezone", "space_amount"),
    *("space_used", "max_upload_size", "status", "job_title", "phone", "address", "avatar_url"),
    "notification_email",
)
_MINI = ("id", "name", "login")
# The fields of an external user that the enterprise may see.
_EXTERNAL = ("type", "id", "name", "login", "avatar_url")
# Fields with a column of their own, and its name.
_COLUMNS = {name: name for name in ("name", "login", "role", "status", "space_amount")}
_COLUMNS["can_search_enterprise_content"] = "enterprise_content"

_EXTERNAL_USERS = """
  SELECT account.* FROM collaborator JOIN account ON account.id = collaborator.account
    WHERE collaborator.enterprise = ?1 AND account.enterprise NOT IN (0, ?1)
"""


async def me(call: calls.Call) -> responses.Response:
    return calls.answer(_shown(call, call.store.read, _find(call, str(call.caller.id))))


async def get(call: calls.Call) -> responses.Response:
    if call.id != str(call.caller.id):
        calls.require_admin(call.caller)
    return calls.answer(_shown(call, call.store.read, _find(call, call.id)))


def _find(call: calls.Call, wire_id: str) -> Row:
    """Return a user that the caller's enterprise may see; 404 otherwise."""
    sql = f"{_EXTERNAL_USERS} AND account.id = ?2"
    external = call.store.read(sql, call.caller.enterprise, calls.parse_id(wire_id))
    return external[0] if external else calls.get_user(call.store.read, call.caller, wire_id)


async def list_users(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    params = call.request.query_params
    limit, use_marker = marker_pagination.read_limit(params), paging.read_flag(params, "usemarker")
    offset = paging.read_number(params, "offset", 0)
    if offset > MAX_OFFSET:
        raise problems.invalid("offset", f"must be {MAX_OFFSET} or less", code="invalid_offset")
    if use_marker and offset:
        raise problems.invalid("offset", "excludes usemarker", code="invalid_parameter")
    if params.get("marker") and not use_marker:
        raise problems.invalid("marker", "needs usemarker=true", code="invalid_parameter")
    after = marker_pagination.read_marker(params)

    def run(read: store.Read) -> dict[str, Any]:
        found = _matching(read, call.caller, params)
        rows = [row for row in found if row["id"] > after] if use_marker else found[offset:]
        page, marker = marker_pagination.cut_page(rows, limit)
        answer: dict[str, Any] = {
            "total_count": len(found),
            "entries": [_shown(call, read, row) for row in page],
            "limit": limit,
            "offset": offset,
            "order": [{"by": "id", "direction": "ASC"}],
        }
        # The specification names it `marker` here, and `next_marker` in its text on paging.
        marked = {"marker": marker, "next_marker": marker, "prev_marker": None}
        return answer | (marked if use_marker else {})

    return calls.answer(await call.store.query(run))


def _matching(read: store.Read, caller: calls.Caller, params: datastructures.QueryParams) -> list[Row]:
    """Return the users that match a list's filters, by id."""
    kind = params.get("user_type") or "all"
    if kind not in ("all", "managed", "external"):
        raise problems.invalid("user_type", "must be all, managed or external", code="invalid_parameter")
    term = wire_names.name_key(params.get("filter_term", "").strip())
    wanted = params.get("external_app_user_id")
    if kind != "managed" and term and not wanted:
        external = read(f"{_EXTERNAL_USERS} ORDER BY account.id", caller.enterprise)
        matching = [row for row in external if wire_names.name_key(row["login"] or "") == term][:1]
        if matching:
            return matching
    if kind == "external":
        return []
    rows = read("SELECT * FROM account WHERE enterprise = ? ORDER BY id", caller.enterprise)
    if wanted:
        rows = [row for row in rows if _app_user_id(row) == wanted]
    return [row for row in rows if _starts_with(row["name"], term) or _starts_with(row["login"], term)]


def _starts_with(text: str | None, term: str) -> bool:
    return wire_names.name_key(text or "").startswith(term)


def _app_user_id(row: Row) -> str | None:
    details = json.loads(row["details"])
    is_app_user = details.get("is_platform_access_only") or app_users.is_app_user(row)
    return details.get("external_app_user_id") if is_app_user else None


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(users.NewUser)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        _check(read, call.caller, wish)
        number = insert(conn, call.caller.enterprise, wish.name, wish.login, now=call.store.now())["id"]
        _change(conn, number, wish)
        _log(conn, call, "NEW_USER", number)
        return _shown(call, read, calls.get_user(read, call.caller, str(number)))

    return calls.answer(await call.store.write(txn), 201)


async def update(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(users.UpdateUser)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = calls.get_user(read, call.caller, call.id)
        demotes = wish.role is not None or wish.status is not None or "enterprise" in wish.model_fields_set
        if row["id"] == call.caller.id and demotes:
            raise problems.Refused(403, "forbidden", "Nobody changes their own role, status or enterprise.")
        callers.check_rank(call.caller.role, row)
        _check(read, call.caller, wish, besides=row["id"])
        _change(conn, row["id"], wish, now=call.store.now())
        _log(conn, call, "EDIT_USER", row["id"])
        if "enterprise" in wish.model_fields_set:
            _move_to_own_enterprise(conn, row, now=call.store.now())
        return _shown(call, read, read("SELECT * FROM account WHERE id = ?", row["id"])[0])

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    force = call.flag("force")

    def txn(conn: Connection) -> None:
        row = calls.get_user(store.reader(conn), call.caller, call.id)
        callers.check_rank(call.caller.role, row)
        is_needed = conn.execute("SELECT 1 FROM app WHERE service_user = ?", (row["id"],)).fetchone()
        if row["id"] == call.caller.id or is_needed:
            raise problems.Refused(403, "forbidden", "The caller and the users of applications stay.")
        owned = conn.execute("SELECT 1 FROM item WHERE owner = ? AND status != 3", (row["id"],)).fetchone()
        if owned and not force:
            message = "The user owns content; move it first, or use force to delete it too."
            raise problems.Refused(400, "bad_request", message)
        protection.check_owner(conn, row["id"], now=call.store.now())
        _log(conn, call, "DELETE_USER", row["id"])
        collaborations.end_all(conn, row["id"], by=call.caller.id, now=call.store.now())
        _remove(conn, row["id"], now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _log(conn: Connection, call: calls.Call, event_type: str, number: int) -> None:
    user = item_serializer.user_mini(conn.execute("SELECT * FROM account WHERE id = ?", (number,)).fetchone())
    by, now = call.caller.id, call.store.now()
    events_admin.record(conn, call.caller.enterprise, event_type, user, by=by, now=now)


def insert(
    conn: Connection, enterprise: int, name: str, login: str | None, *, role: str = "user", now: int
) -> Row:
    """Create a user with an empty root folder; without a login it is an app user."""
    number = conn.execute(
        "INSERT INTO account (enterprise, name, login, role, space_amount, max_upload_size, created_at,"
        " modified_at, enterprise_content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (enterprise, name, login, role, SPACE_AMOUNT, MAX_UPLOAD_SIZE, now, now, role == "admin"),
    ).fetchone()["id"]
    root = conn.execute(
        "INSERT INTO item (kind, owner, path, name, name_key, status, created_at, modified_at,"
        " content_created_at, content_modified_at, created_by, modified_by)"
        " VALUES (0, ?1, '/', ?2, '', 3, ?3, ?3, ?3, ?3, ?1, ?1) RETURNING id",
        (number, item_serializer.ROOT_NAME, now),
    ).fetchone()
    conn.execute("UPDATE account SET root = ? WHERE id = ?", (root["id"], number))
    if login is None:
        app_users.give_login(conn, number)
    row: Row = conn.execute("SELECT * FROM account WHERE id = ?", (number,)).fetchone()
    return row


def _check(
    read: store.Read, caller: calls.Caller, wish: users.UpdateUser, *, besides: int | None = None
) -> None:
    """Check the rules that the model cannot express; 400, and 409 for a login that is in use."""
    if wish.can_search_enterprise_content is not None and caller.role != "admin":
        message = "Only an administrator says who may search the content of the whole enterprise."
        raise problems.Refused(403, "forbidden", message)
    if wish.timezone is not None and _zones() and wish.timezone not in _zones():
        raise problems.invalid("timezone", "is not the name of a time zone")
    if wish.tracking_codes:
        row = read("SELECT tracking_codes FROM enterprise WHERE id = ?", caller.enterprise)[0]
        known = json.loads(row["tracking_codes"])
        for code in wish.tracking_codes:
            if code.name not in known:
                raise problems.invalid("tracking_codes", f"the enterprise has no tracking code {code.name!r}")
    if wish.login is not None:
        found = read("SELECT id FROM account WHERE lower(login) = lower(?)", wish.login)
        if app_users.is_app_user_login(wish.login) and not found:
            raise problems.invalid("login", f"{app_users.DOMAIN} is for app users")
        alias = read("SELECT account AS id FROM email_alias WHERE email = lower(?)", wish.login)
        if (found and found[0]["id"] != besides) or alias:
            message = "A user with this login exists already."
            raise problems.Refused(409, "user_login_already_used", message)


@cache
def _zones() -> frozenset[str]:
    """Return the names of time zones; empty if the system has no time zone data."""
    return frozenset(zoneinfo.available_timezones())


def _change(conn: Connection, number: int, wish: users.UpdateUser, *, now: int | None = None) -> None:
    """Apply the request's fields.  Null changes nothing, except that it clears the notification address."""
    row = conn.execute("SELECT * FROM account WHERE id = ?", (number,)).fetchone()
    given = wish.model_dump(mode="json", exclude_none=True, exclude={"notify"})
    if "notification_email" in wish.model_fields_set:
        address = wish.notification_email
        given["notification_email"] = (
            None
            if address is None or address.email is None
            else {"email": address.email, "is_confirmed": False}
        )
    details = json.loads(row["details"]) | {
        name: value for name, value in given.items() if name not in _COLUMNS and name != "enterprise"
    }
    columns = {column: given.get(name, row[column]) for name, column in _COLUMNS.items()}
    columns |= {
        "details": json.dumps(details, ensure_ascii=False),
        "modified_at": row["modified_at"] if now is None else now,
    }
    parts = ", ".join(f"{name} = ?" for name in columns)
    conn.execute(f"UPDATE account SET {parts} WHERE id = ?", (*columns.values(), number))


def _move_to_own_enterprise(conn: Connection, row: Row, *, now: int) -> None:
    """Move a user into an enterprise of their own, with all they own; 403 if any of it is protected."""
    protection.check_owner(conn, row["id"], now=now)
    made = conn.execute(
        "INSERT INTO enterprise (name, created_at) VALUES (?, ?) RETURNING id", (row["name"], now)
    ).fetchone()
    conn.execute(
        "UPDATE account SET enterprise = ?, role = 'admin', enterprise_content = 0 WHERE id = ?",
        (made["id"], row["id"]),
    )
    _revoke_access(conn, row["id"])


def _remove(conn: Connection, number: int, *, now: int) -> None:
    conn.execute("DELETE FROM item WHERE owner = ?", (number,))
    for table in ("email_alias", "avatar", "invite", "terms_status", "storage_assignment"):
        conn.execute(f"DELETE FROM {table} WHERE account = ?", (number,))
    _revoke_access(conn, number)
    conn.execute(
        "INSERT INTO enterprise (id, name, created_at) VALUES (0, '', ?) ON CONFLICT DO NOTHING", (now,)
    )
    conn.execute(
        "UPDATE account SET enterprise = 0, login = NULL, status = 'inactive', root = NULL, modified_at = ?"
        " WHERE id = ?",
        (now, number),
    )


def _revoke_access(conn: Connection, number: int) -> None:
    """Revoke the user's tokens and exemptions in the enterprise."""
    conn.execute("DELETE FROM token WHERE account = ?", (number,))
    conn.execute("DELETE FROM exemption WHERE account = ?", (number,))


def _shown(call: calls.Call, read: store.Read, row: Row) -> dict[str, Any]:
    """Return a user as the caller may see them."""
    enterprise = read("SELECT * FROM enterprise WHERE id = ?", row["enterprise"])[0]
    whole = _full(row, enterprise)
    if read("SELECT 1 FROM avatar WHERE account = ?", row["id"]):
        url = call.request.url
        whole["avatar_url"] = f"{url.scheme}://{url.netloc}/2.0/users/{row['id']}/avatar"
    if row["enterprise"] != call.caller.enterprise:
        whole = {name: value if name in _EXTERNAL else None for name, value in whole.items()}
    return marker_pagination.select_fields(whole, _MINI, call.fields, _STANDARD)


def _full(row: Row, enterprise: Row) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "type": "user",
        "language": "en",
        "timezone": "Etc/UTC",
        "job_title": "",
        "phone": "",
        "address": "",
        "avatar_url": "",
        "notification_email": None,
        "hostname": "",
        "tracking_codes": [],
        "can_see_managed_users": True,
        "is_sync_enabled": True,
        "is_external_collab_restricted": False,
        "is_exempt_from_device_limits": False,
        "is_exempt_from_login_verification": False,
        "is_platform_access_only": app_users.is_app_user(row),
        "my_tags": [],
        "external_app_user_id": None,
    }
    whole |= json.loads(row["details"])
    for name in ("name", "role", "status", "space_amount", "space_used", "max_upload_size"):
        whole[name] = row[name]
    whole["can_search_enterprise_content"] = bool(row["enterprise_content"])
    return whole | {
        "id": str(row["id"]),
        "login": row["login"] or "",
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        "enterprise": {"type": "enterprise", "id": str(enterprise["id"]), "name": enterprise["name"]},
    }


_FIELDS = [operations.FIELDS]

routes = [
    Operation(
        "GET /users",
        list_users,
        "List enterprise users",
        users.UsersPage,
        query=[
            operations.Parameter("filter_term", "What the name or the login begins with."),
            operations.choice("user_type", "Which users.", "all", "managed", "external"),
            operations.Parameter("external_app_user_id", "App users with this id alone."),
            operations.LIMIT,
            operations.OFFSET,
            operations.USEMARKER,
            operations.MARKER,
            *_FIELDS,
        ],
    ),
    Operation(
        "POST /users",
        create,
        "Create user",
        users.User,
        status=201,
        query=_FIELDS,
        body=users.NewUser,
        errors=(409,),
    ),
    Operation("GET /users/me", me, "Get the current user", users.User, query=_FIELDS),
    Operation("GET /users/{id}", get, "Get user", users.User, query=_FIELDS),
    Operation(
        "PUT /users/{id}",
        update,
        "Change a user",
        users.User,
        query=_FIELDS,
        body=users.UpdateUser,
        errors=(409,),
    ),
    Operation(
        "DELETE /users/{id}",
        delete,
        "Delete a user",
        status=204,
        query=[operations.flag("force", "Together with everything that the user owns.")],
    ),
]
