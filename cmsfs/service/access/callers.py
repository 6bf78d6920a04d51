"""Resolves a token to its caller: a user, or another user through the `as-user` header.

The account that an application has of its own administers like a co-administrator, as far as the scopes of
that application go: an administrator gave them to it.

Rule: nobody acts as somebody of a higher rank, nor by an application that may not manage users.
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
    """The user that a token speaks for, and what it is good for."""

    id: int
    enterprise: int
    role: str
    root: int
    client_id: str
    enterprise_content: bool
    scopes: frozenset[str]  # with all that they contain
    bound: int | None  # the item that, with what is below it, is all there is for this token
    actor: dict[str, str] | None  # annotator token: the id and the name of who acts
    # What a shared link, named by the request or the token, shows beside the caller's own.
    shared: shared_links.Shared | None = None
    barred: ItemRight = roles.NONE  # what the user's status forbids on whatever item
    by: int | None = None  # who acts as this user
    is_service: bool = False  # the account that an application has of its own
    is_visitor: bool = False  # somebody without an account, by a shared link


def hashed(secret: str) -> str:
    """What is stored of a token or a client secret.  They are long and random: one hash is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def of_token(store: Store, token: str, *, as_user: str | None = None) -> Caller:
    """Whom a token speaks for.  Raises `Unauthorized` for one that is not good."""
    found = store.read(_CALLER, hashed(token))
    if not found:
        raise problems.UnauthorizedResponse("The access token provided is invalid.")
    row = found[0]
    if row["expires_at"] <= clock.time_ns() // 1000:
        # Some clients look for this word to tell a token to be renewed from one that never was good.
        raise problems.UnauthorizedResponse("The access token provided has expired (expired_token).")
    effective = scopes.effective(row["application"], row["granted"])
    is_service = row["service_user"] == row["id"] and app_users.is_app_user(row)
    role = "coadmin" if is_service and row["role"] == "user" else row["role"]
    user = row if as_user is None else _as_user(store, row, role, effective, as_user)
    if "inactive" in (row["status"], user["status"]):
        raise problems.UnauthorizedResponse("The user of this access token is inactive.")
    caller = speaks_for(
        user,
        row["app"],
        effective,
        bound=row["bound"],
        actor=json.loads(row["actor"]) if row["actor"] else None,
    )
    if user["id"] == row["id"]:
        caller = dataclasses.replace(caller, role=role, is_service=is_service)
    else:
        barred = caller.barred | roles.BARRED.get(row["status"], roles.NONE)
        caller = dataclasses.replace(caller, by=row["id"], barred=barred)
    if row["link"] is None:
        return caller
    # It shows the item for as long as the link does.
    shared = shared_links.recall(
        store.read, row["link"], user=caller.id, enterprise=caller.enterprise, now=store.now()
    )
    is_visitor = row["app"] == visitors.APP
    if is_visitor and shared is None:
        raise problems.UnauthorizedResponse("The shared link of this access token has ended or has changed.")
    return dataclasses.replace(caller, shared=shared, is_visitor=is_visitor)


def speaks_for(
    user: Row,
    client_id: str,
    effective: frozenset[str],
    *,
    bound: int | None = None,
    actor: dict[str, str] | None = None,
) -> Caller:
    """The caller that a user's row is, with these scopes."""
    return Caller(
        id=user["id"],
        enterprise=user["enterprise"],
        role=user["role"],
        root=user["root"],
        client_id=client_id,
        enterprise_content=bool(user["enterprise_content"]),
        scopes=effective,
        bound=bound,
        actor=actor,
        barred=roles.BARRED.get(user["status"], roles.NONE),
    )


def check_rank(role: str, row: Row) -> None:
    """403 for who, with this role, would be above themselves by what they could do with that user."""
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
    # The scope to manage users; an app user is managed by the one for those as well.
    enough = {"manage_managed_users"} | ({"manage_app_users"} if app_users.is_app_user(user) else set())
    if effective.isdisjoint(enough):
        raise problems.Refused(
            403, "insufficient_scope", "To act as another user the application needs manage_managed_users."
        )
    check_rank(role, user)
    return user


def parse_id(wire_id: str) -> int | None:
    """The number that an id is; None if no item can have it."""
    # 18 digits fit into the database's integers.
    return int(wire_id) if wire_id.isascii() and wire_id.isdigit() and len(wire_id) <= 18 else None
