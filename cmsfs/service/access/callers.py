"""Resolves a token to its caller: a user, or another user through the `as-user` header.

An application's service account has the rights of a co-administrator within the application's scopes, which
an administrator granted.

Rule: nobody acts as a user of a higher rank, nor through an application that may not manage users.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from sqlite3 import Row

from cmsfs.runtime import clock
from cmsfs.service import problems
from cmsfs.service.access import roles, scopes, shared_links
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage import app_users, visitors
from cmsfs.service.storage.store import Store

_CALLER = """
  SELECT token.expires_at, token.app, token.scopes AS granted, token.bound, token.actor, token.link,
    app.scopes AS application, app.service_user, account.*
  FROM token JOIN app ON app.client_id = token.app JOIN account ON account.id = token.account
  WHERE token.hash = ?
"""
_AS_USER = "SELECT account.* FROM account WHERE id = ? AND enterprise = ?"


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that a token authenticates, and what the token permits."""

    id: int
    enterprise: int
    role: str
    root: int
    client_id: str
    enterprise_content: bool
    scopes: frozenset[str]  # including implied ones
    bound: int | None  # the only item that the token gives access to, with everything below it
    actor: dict[str, str] | None  # annotator token: the id and name of the actor
    # The shared link of the request or the token; it adds to the caller's own rights.
    shared: shared_links.Shared | None = None
    forbidden_rights: ItemRight = roles.NONE  # rights that the user's status takes away on every item
    by: int | None = None  # the user who acts as this one (`as-user`)
    is_visitor: bool = False  # without an account, through a shared link


def hashed(secret: str) -> str:
    """Return the stored hash of a token or client secret.  They are long and random: one SHA-256 suffices."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def caller_of_token(store: Store, token: str, *, as_user: str | None = None) -> Caller:
    """Return the caller of a token.  Raises `UnauthorizedResponse` if the token is invalid or expired."""
    found = store.read(_CALLER, hashed(token))
    if not found:
        raise problems.UnauthorizedResponse("The access token provided is invalid.")
    row = found[0]
    if row["expires_at"] <= clock.time_ns() // 1000:
        # Some clients look for this word to tell an expired token, which they renew, from an invalid one.
        raise problems.UnauthorizedResponse("The access token provided has expired (expired_token).")
    effective = scopes.effective(row["application"], row["granted"])
    is_service = row["service_user"] == row["id"] and app_users.is_app_user(row)
    role = "coadmin" if is_service and row["role"] == "user" else row["role"]
    user = row if as_user is None else _as_user(store, row, role, effective, as_user)
    if "inactive" in (row["status"], user["status"]):
        raise problems.UnauthorizedResponse("The user of this access token is inactive.")
    is_self = user["id"] == row["id"]
    caller = caller_of_user(
        user,
        row["app"],
        effective,
        role=role if is_self else None,
        bound=row["bound"],
        actor=json.loads(row["actor"]) if row["actor"] else None,
    )
    if not is_self:
        forbidden_rights = caller.forbidden_rights | roles.FORBIDDEN_BY_STATUS.get(row["status"], roles.NONE)
        caller = dataclasses.replace(caller, by=row["id"], forbidden_rights=forbidden_rights)
    if row["link"] is None:
        return caller
    # The token gives access to the item only as long as the link does.
    shared = shared_links.from_stored(
        store.read, row["link"], user=caller.id, enterprise=caller.enterprise, now=store.now()
    )
    is_visitor = row["app"] == visitors.APP
    if is_visitor and shared is None:
        raise problems.UnauthorizedResponse("The shared link of this access token has ended or has changed.")
    return dataclasses.replace(caller, shared=shared, is_visitor=is_visitor)


def caller_of_user(
    user: Row,
    client_id: str,
    effective: frozenset[str],
    *,
    role: str | None = None,
    bound: int | None = None,
    actor: dict[str, str] | None = None,
) -> Caller:
    """Return the caller for a user's row and scopes; `role` in place of the user's own."""
    return Caller(
        id=user["id"],
        enterprise=user["enterprise"],
        role=role or user["role"],
        root=user["root"],
        client_id=client_id,
        enterprise_content=bool(user["enterprise_content"]),
        scopes=effective,
        bound=bound,
        actor=actor,
        forbidden_rights=roles.FORBIDDEN_BY_STATUS.get(user["status"], roles.NONE),
    )


def check_rank(role: str, row: Row) -> None:
    """Raise 403 if acting on that user would give this role more rights than it has."""
    if row["role"] == "admin" and role != "admin":
        raise problems.Refused(
            403, "forbidden", "A co-administrator can neither change nor be an administrator."
        )


def _as_user(store: Store, caller: Row, role: str, effective: frozenset[str], other: str) -> Row:
    if role == "user":
        raise problems.Refused(403, "forbidden", "Only an administrator may act as another user.")
    if caller["granted"] is not None:
        raise problems.Refused(403, "forbidden", "A narrowed token speaks for no other user.")
    number = parse_id(other)
    found = store.read(_AS_USER, number, caller["enterprise"]) if number is not None else []
    if not found:
        raise problems.Refused(403, "forbidden", "There is no such user in your enterprise.")
    user = found[0]
    # The scope to manage users; for app users, the scope to manage those is enough.
    enough = {"manage_managed_users"} | ({"manage_app_users"} if app_users.is_app_user(user) else set())
    if effective.isdisjoint(enough):
        raise problems.Refused(
            403, "insufficient_scope", "To act as another user the application needs manage_managed_users."
        )
    check_rank(role, user)
    return user


def parse_id(wire_id: str) -> int | None:
    """Return the number of an id; None if it cannot be one."""
    # 18 digits fit into a 64-bit integer.
    return int(wire_id) if wire_id.isascii() and wire_id.isdigit() and len(wire_id) <= 18 else None
