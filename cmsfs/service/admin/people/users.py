"""Users: list, create, set passwords, end sessions, transfer a user's content to another.

A password is generated here and shown once; until then a user has none and has access only through
applications.

Rule: a co-administrator may not set an administrator's password.
"""

from sqlite3 import Connection
from typing import Any

from starlette import responses

from cmsfs.runtime import chance, threads
from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.oauth import passwords
from cmsfs.service.storage import app_users, store

PAGE = 50
_FIELDS = (
    "name,login,is_platform_access_only,role,status,space_used,space_amount,created_at,"
    "can_search_enterprise_content"
)
_GIB = 1024**3


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    term = desk.request.query_params.get("filter_term", "")
    try:
        found = await desk.ask(
            "GET /users",
            usemarker="true",
            marker=desk.marker,
            limit=PAGE,
            filter_term=term,
            fields=_FIELDS,
            user_type="managed",
        )
    except service_desk.Mistake as error:
        found, mistake = {"entries": [], "total_count": 0, "next_marker": None}, str(error)
    return desk.page(
        "users.html", form=form, mistake=mistake, found=found, term=term, next=found["next_marker"] or ""
    )


async def create(desk: Desk, form: dict[str, str]) -> responses.Response:
    body: dict[str, Any] = {"name": form.get("name", "").strip(), "login": form.get("login", "").strip()}
    body["role"] = form.get("role") or "user"
    if text := form.get("space", "").strip():
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise service_desk.Mistake("The space must be a whole number of GiB.")
        body["space_amount"] = int(text) * _GIB
    made = await desk.ask("POST /users", body=body)
    if not form.get("password"):
        return desk.done(f"{made['name']} is a user now.")
    password = await _set_new_password(desk, made["id"])
    return desk.done(f"{made['name']} is a user now.", secrets={"Login": made["login"], "Password": password})


async def set_content_search(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Allow or forbid a user to search the content of the whole enterprise."""
    wire_id, may = desk.request.path_params["id"], form.get("may") == "yes"
    made = await desk.ask("PUT /users/{id}", wire_id=wire_id, body={"can_search_enterprise_content": may})
    message = "may search the content of the whole enterprise" if may else "searches their own content alone"
    return desk.done(f"{made['name']} {message} now.", to="/users")


async def offboard(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Offboard a user: end their sessions, or transfer their content to another user."""
    user = await find_by_login(desk, form.get("login", "").strip())
    if form.get("action") == "end":
        await desk.ask("POST /users/terminate_sessions", body={"user_ids": [user["id"]]})
        return desk.done(f"The sessions of {user['name']} have ended.", to="/users")
    recipient = await find_by_login(desk, form.get("to", "").strip())
    body = {"owned_by": {"id": recipient["id"]}}
    made = await desk.ask("PUT /users/{id}/folders/0", wire_id=user["id"], body=body)
    message = (
        f'{recipient["name"]} has the folder "{made["name"]}" now, with everything that {user["name"]} owned.'
    )
    return desk.done(message, to="/users")


async def reset_password(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Replace a user's password."""
    wire_id = desk.request.path_params["id"]
    password = await _set_new_password(desk, wire_id)
    login = desk.store.read("SELECT login FROM account WHERE id = ?", wire_id)[0]["login"]
    return desk.done("The password is replaced.", to="/users", secrets={"Login": login, "Password": password})


async def _set_new_password(desk: Desk, wire_id: str) -> str:
    password = chance.token_urlsafe(12)
    hashed = await threads.run_sync(passwords.hashed, password)

    def txn(conn: Connection) -> None:
        row = calls.get_user(store.reader(conn), desk.caller, wire_id)
        if app_users.is_app_user(row):
            raise problems.Refused(400, "bad_request", "An app user does not log in.")
        callers.check_rank(desk.caller.role, row)
        passwords.store_hash(conn, row["id"], hashed)
        # End the sessions of the old password, but not the one of this administrator.
        conn.execute(
            "DELETE FROM login WHERE account = ? AND hash != ?",
            (row["id"], desk.visit.login_kind.hashed(desk.visit.secret)),
        )

    try:
        await desk.store.write(txn)
    except problems.Refused as refused:
        raise service_desk.Mistake(refused.message) from None
    return password


async def find_by_login(desk: Desk, login: str) -> Any:
    """Return the user with this login.  Raises `Mistake` if the enterprise has none."""
    found = await desk.ask("GET /users", filter_term=login, user_type="managed", fields="name,login")
    for one in found["entries"]:
        if login and one["login"].lower() == login.lower():
            return one
    raise service_desk.Mistake(f"The enterprise has no user with the login {login!r}.")
