"""Ends all sessions of users: they must log in again, and applications need new consent.

This revokes access tokens, consents with their refresh tokens, authorization codes and browser logins.  An
application whose grant needs no user gets a new token as soon as it requests one.
"""

from collections.abc import Iterator
from sqlite3 import Connection, Row

from starlette import responses

from cmsfs.models.enterprise import users
from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.api.operations import Operation
from cmsfs.service.storage import store

# The exact text that clients of the public API expect: there the sessions end after the response.
_MESSAGE = "Request is successful, please check the admin events for the status of the job"
_GIVEN_OUT = ("token", "family", "code", "login")


async def terminate(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(users.TerminateSessions)
    if not wish.user_ids and not wish.user_logins:
        raise problems.invalid("user_ids", "names no user, nor does user_logins", reason="missing_parameter")

    def txn(conn: Connection) -> None:
        _end(conn, call, list(_named(store.reader(conn), call.caller, wish)))

    await call.store.write(txn)
    return calls.answer({"message": _MESSAGE}, 202)


async def terminate_groups(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(users.TerminateGroupSessions)
    if not wish.group_ids:
        raise problems.invalid("group_ids", "names no group", reason="missing_parameter")

    def txn(conn: Connection) -> None:
        _end(conn, call, list(_members(store.reader(conn), call.caller, wish)))

    await call.store.write(txn)
    return calls.answer({"message": _MESSAGE}, 202)


def _end(conn: Connection, call: calls.Call, rows: list[Row]) -> None:
    for row in rows:
        callers.check_rank(call.caller.role, row)
        for table in _GIVEN_OUT:
            conn.execute(f"DELETE FROM {table} WHERE account = ?", (row["id"],))


def _members(read: store.Read, caller: calls.Caller, wish: users.TerminateGroupSessions) -> Iterator[Row]:
    """Yield the enterprise's users in these groups; 404 for a group that it does not have."""
    for wire_id in wish.group_ids:
        number = calls.parse_id(wire_id)
        if not read("SELECT 1 FROM user_group WHERE id = ? AND enterprise = ?", number, caller.enterprise):
            raise problems.not_found("group_ids", wire_id)
        yield from read(
            "SELECT account.* FROM membership JOIN account ON account.id = membership.account"
            " WHERE user_group = ?1 AND account.enterprise = ?2",
            number,
            caller.enterprise,
        )


def _named(read: store.Read, caller: calls.Caller, wish: users.TerminateSessions) -> Iterator[Row]:
    """Yield the users by id and by login; 404 for one that the enterprise does not have."""
    for wire_id in wish.user_ids:
        yield calls.get_user(read, caller, wire_id, name="user_ids")
    for login in wish.user_logins:
        sql = "SELECT * FROM account WHERE enterprise = ? AND lower(login) = lower(?)"
        found = read(sql, caller.enterprise, login)
        if not found:
            raise problems.not_found("user_logins", login)
        yield found[0]


routes = [
    Operation(
        "POST /users/terminate_sessions",
        terminate,
        "End the sessions of users",
        users.SessionsTerminated,
        status=202,
        body=users.TerminateSessions,
        errors=(404,),
        more="No session is ended unless the caller may manage all of the users.",
    ),
    Operation(
        "POST /groups/terminate_sessions",
        terminate_groups,
        "End the sessions of the members of groups",
        users.SessionsTerminated,
        status=202,
        body=users.TerminateGroupSessions,
        errors=(404,),
        more="No session is ended unless the caller may manage all of the users.",
    ),
]
