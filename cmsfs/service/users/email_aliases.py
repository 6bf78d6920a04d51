"""Further email addresses of a user, for logging in and for invitations to collaborate.

Rule: an address belongs to one user, as the login or as an alias.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.enterprise import email_aliases
from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events_admin
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import app_users, store

# The most that clients show.
MOST = 100


def _user(read: store.Read, call: calls.Call, *, changes: bool = False) -> Row:
    """Return the user in the path, for administrators; 404 if the enterprise has none."""
    if changes or call.id != str(call.caller.id):
        calls.require_admin(call.caller)
    row = calls.get_user(read, call.caller, call.id)
    if changes:
        callers.check_rank(call.caller.role, row)
    return row


def _shape(row: Row) -> dict[str, Any]:
    # Set by an administrator, so it needs no confirmation.
    return {"type": "email_alias", "id": str(row["id"]), "email": row["email"], "is_confirmed": True}


async def list_of_user(call: calls.Call) -> responses.Response:
    user = _user(call.store.read, call)
    rows = call.store.read("SELECT * FROM email_alias WHERE account = ? ORDER BY id", user["id"])
    return calls.answer({"total_count": len(rows), "entries": [_shape(row) for row in rows]})


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(email_aliases.NewEmailAlias)
    email = wish.email.lower()

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        user = _user(read, call, changes=True)
        if app_users.is_app_user(user) or app_users.is_app_user_login(email):
            raise problems.invalid("email", "app users have no addresses")
        if read("SELECT 1 FROM account WHERE lower(login) = ?", email) or read(
            "SELECT 1 FROM email_alias WHERE email = ?", email
        ):
            raise problems.Refused(409, "user_login_already_used", "A user with this address exists already.")
        if len(read("SELECT 1 FROM email_alias WHERE account = ?", user["id"])) >= MOST:
            raise problems.Refused(400, "bad_request", f"A user has {MOST} addresses at most.")
        conn.execute("INSERT INTO email_alias (account, email) VALUES (?, ?)", (user["id"], email))
        _log(conn, call, "EMAIL_ALIAS_CONFIRM", user)
        return _shape(read("SELECT * FROM email_alias WHERE email = ?", email)[0])

    return calls.answer(await call.store.write(txn), 201)


async def delete(call: calls.Call) -> responses.Response:
    number = call.request.path_params["alias"]

    def txn(conn: Connection) -> None:
        user = _user(store.reader(conn), call, changes=True)
        done = conn.execute(
            "DELETE FROM email_alias WHERE id = ? AND account = ?", (calls.parse_id(number), user["id"])
        )
        if not done.rowcount:
            raise problems.not_found("email_alias", number)
        _log(conn, call, "EMAIL_ALIAS_REMOVE", user)

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _log(conn: Connection, call: calls.Call, event_type: str, user: Row) -> None:
    source = item_serializer.user_mini(user)
    events_admin.record(conn, user["enterprise"], event_type, source, by=call.caller.id, now=call.store.now())


routes = [
    Operation(
        "GET /users/{id}/email_aliases",
        list_of_user,
        "List the further addresses of a user",
        email_aliases.EmailAliases,
    ),
    Operation(
        "POST /users/{id}/email_aliases",
        create,
        "Give a user a further address",
        email_aliases.EmailAlias,
        status=201,
        body=email_aliases.NewEmailAlias,
        errors=(409,),
        more="The user logs in and is invited by it, too.",
    ),
    Operation(
        "DELETE /users/{id}/email_aliases/{alias}", delete, "Take a further address from a user", status=204
    ),
]
