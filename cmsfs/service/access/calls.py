"""The context of one request: its caller, and what that caller may see and do.

`guarded` wraps a handler as a Starlette endpoint: it checks the bearer token and its scopes (see scopes.py)
and passes the handler a `Call`.  `get_item`, `get_trashed`, `get_target` and `get_for_change` look an item up
by its id; each states the rights that it needs, which access_rights.py computes.  Many items at once come
from listings of a visible folder, and from search (search_plan.py).

Rule: an item that may not be seen does not exist: 404, never 403.
"""

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any, TypeVar

import pydantic
import pydantic_core
from starlette import requests, responses

from cmsfs.models import wire_names
from cmsfs.service import problems
from cmsfs.service.access import (
    access_rights,
    actors,
    callers,
    link_passwords,
    locks,
    scopes,
    shared_links,
    terms,
)

# Re-exported: every capability module uses these through `calls`.
from cmsfs.service.access.callers import Caller as Caller
from cmsfs.service.access.callers import hashed as hashed
from cmsfs.service.access.callers import parse_id as parse_id
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus
from cmsfs.service.storage.store import Read, Store

M = TypeVar("M", bound=pydantic.BaseModel)

# Limit of a JSON body.
MAX_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request."""

    request: requests.Request
    store: Store
    caller: Caller
    data: bytes | None = None  # the body, if the scope check had to read it

    @property
    def id(self) -> str:
        """Return the id in the path."""
        wire_id: str = self.request.path_params["id"]
        return wire_id

    @property
    def fields(self) -> list[str] | None:
        """Return the requested fields; None means the standard representation."""
        asked = self.request.query_params.get("fields")
        return (
            None if asked is None else [name for part in asked.split(",") if (name := part.strip())] or None
        )

    def flag(self, name: str) -> bool:
        """Return a boolean of the query string, in any client's spelling."""
        return self.request.query_params.get(name, "").lower() in ("true", "1")

    async def body(self, model: type[M]) -> M:
        """Parse the JSON body as a model; an absent body is an empty object."""
        data = await read_body(self.request) if self.data is None else self.data
        if data:
            check_json(self.request)
        return model.model_validate_json(data or b"{}")

    def check_if_match(self, row: Row) -> None:
        """Raise 412 unless the item still has the etag that the client sent."""
        wanted = self.request.headers.get("if-match")
        if wanted is not None and not _etag_matches(wanted, row):
            raise problems.Refused(
                412, "precondition_failed", "The item has changed since the version you have."
            )

    def is_unchanged(self, row: Row) -> bool:
        """Return whether the client has the current version already (If-None-Match)."""
        known = self.request.headers.get("if-none-match")
        return known is not None and _etag_matches(known, row)


Handler = Callable[[Call], Awaitable[responses.Response]]
Endpoint = Callable[[requests.Request], Awaitable[responses.Response]]


def guarded(handler: Handler) -> Endpoint:
    """Wrap a handler as an endpoint that requires a valid bearer token with the scopes for it."""

    async def endpoint(request: requests.Request) -> responses.Response:
        store: Store = request.app.store
        caller = _caller(store, request)
        request.scope["acting_id"] = caller.by
        # Visitors through one link share a rate limit, separate from those of other links.
        rate_limit_key = -(caller.bound or 0) if caller.is_visitor else caller.id
        request.app.admit(request, rate_limit_key, rate_limit_key if caller.is_visitor else caller.enterprise)
        actors.set_current(caller.actor, request)
        if caller.shared is not None and "boxapi" in request.headers:
            await shared_links.record_use(store, caller.id, caller.shared)
        data = await _check_scopes(request, caller)
        terms.check(
            store.read, caller, request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        )
        return await handler(Call(request, store, caller, data))

    return endpoint


async def _check_scopes(request: requests.Request, caller: Caller) -> bytes | None:
    """Raise 403 unless the token's scopes allow the operation; return the body if it had to be read."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    need = scopes.find(request.method, path) or scopes.UNLISTED
    data = None
    allowed = need.visitors if caller.is_visitor else need.bound or caller.bound is None
    if allowed and not need.is_met(caller.scopes):
        data = await read_body(request) if need.fields else None
        allowed = data is not None and need.is_met_by_fields(caller.scopes, _field_names(data))
    if not allowed:
        raise problems.Refused(
            403,
            "insufficient_scope",
            "The access token is not good for this operation.",
            headers={"WWW-Authenticate": 'Bearer realm="Service", error="insufficient_scope"'},
        )
    return data


def _field_names(data: bytes) -> list[str]:
    """Return the field names of a JSON body; if it is no object, a name that no scope allows."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return [""]
    return list(found) if isinstance(found, dict) else [""]


def check_json(request: requests.Request) -> None:
    """Raise 415 if the content type is not JSON."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        raise problems.Refused(415, "unsupported_media_type", "The body must be JSON.")


def answer(body: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> responses.Response:
    """Return a JSON response."""
    return responses.Response(pydantic_core.to_json(body), status, headers, media_type="application/json")


async def read_body(request: requests.Request, limit: int = MAX_BODY) -> bytes:
    """Return the whole body; 413 if it is larger than the limit."""
    parts, size = [], 0
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                message = f"The body has more than {limit} bytes."
                raise problems.Refused(413, "request_entity_too_large", message)
    return b"".join(parts)


def _caller(store: Store, request: requests.Request) -> Caller:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise problems.UnauthorizedResponse
    caller = callers.caller_of_token(store, token.strip(), as_user=request.headers.get("as-user"))
    header = request.headers.get("boxapi")
    if header is None or caller.shared is not None:
        return caller
    shared = shared_links.resolve(
        store.read,
        header,
        user=caller.id,
        enterprise=caller.enterprise,
        now=store.now(),
        who=link_passwords.Guesser(store.attempts, f"user:{caller.id}"),
    )
    return dataclasses.replace(caller, shared=shared)


def find_item(read: Read, caller: Caller, kind: ItemKind, wire_id: str) -> Row | None:
    """Return an item that the caller may see, in any state; `0` is the caller's root folder."""
    number = parse_id(wire_id)
    if number is None:
        return None
    if wire_id == wire_names.ROOT_ID and kind is ItemKind.FOLDER:
        number = caller.root
    # The kind is a literal in the SQL: see `search_plan`.
    found = read(f"SELECT * FROM item WHERE id = ? AND kind = {kind:d}", number)
    # A root has one id on the wire, 0; its row number is internal.
    if not found or (found[0]["status"] == ItemStatus.ROOT and wire_id != wire_names.ROOT_ID):
        return None
    return found[0] if rights(read, caller, found[0]) else None


def rights(read: Read, caller: Caller, row: Row) -> ItemRight:
    """Return the caller's rights on an item."""
    return access_rights.View(read, caller).rights(row)


def require(read: Read, caller: Caller, row: Row, needed: ItemRight) -> None:
    """Raise 403 unless the caller, who sees the item, has these rights on it."""
    if needed not in rights(read, caller, row):
        raise _insufficient("You may see this item, but not do that with it.")


def get_item(
    read: Read,
    caller: Caller,
    kind: ItemKind,
    wire_id: str,
    *,
    name: str | None = None,
    needed: ItemRight = ItemRight.SEE,
) -> Row:
    """Return an active item that the caller may see; 404 `not_found`, or `trashed` if it is in the trash.

    403 without the further rights in `needed`.
    """
    row = find_item(read, caller, kind, wire_id)
    if row is not None and row["status"] in (ItemStatus.ACTIVE, ItemStatus.ROOT):
        if needed is not ItemRight.SEE:
            require(read, caller, row, needed)
        return row
    trashed = row is not None and row["status"] == ItemStatus.TRASHED
    raise problems.not_found(name or KIND_NAMES[kind], wire_id, code="trashed" if trashed else "not_found")


def get_trashed(
    read: Read, caller: Caller, kind: ItemKind, wire_id: str, *, needed: ItemRight = ItemRight.MOVE
) -> Row:
    """Return an item in the caller's trash: their own, or somebody else's that the caller trashed.

    404 `not_trashed` for an active item, `not_found` for an item below a trashed one.
    """
    row = find_item(read, caller, kind, wire_id)
    if row is not None and row["status"] == ItemStatus.TRASHED:
        if is_in_trash_of(read, caller, row):
            if needed not in rights(read, caller, row):
                raise _insufficient("Only the owner and co-owners remove this for good.")
            return row
        row = None
    alive = row is not None and row["status"] in (ItemStatus.ACTIVE, ItemStatus.ROOT)
    raise problems.not_found(KIND_NAMES[kind], wire_id, code="not_trashed" if alive else "not_found")


def is_in_trash_of(read: Read, caller: Caller, row: Row) -> bool:
    """Return whether a trashed item is in the caller's trash."""
    found = rights(read, caller, row)
    return ItemRight.OWN in found or (row["trashed_by"] == caller.id and ItemRight.MOVE in found)


def get_for_change(
    read: Read, call: Call, kind: ItemKind, wire_id: str, *, needed: ItemRight, unlocks: bool = False
) -> Row:
    """Return an active item that the caller may change, at the version that the caller started from.

    A root cannot be changed: 403.  An item that was trashed at exactly the etag of `If-Match` gives 412; at
    another one 404, as without the header.  `unlocks`: somebody else's lock does not stop a caller with the
    right to manage the item.
    """
    row = find_item(read, call.caller, kind, wire_id)
    wanted = call.request.headers.get("if-match")
    if (
        row is not None
        and row["status"] == ItemStatus.TRASHED
        and wanted is not None
        and _etag_matches(wanted, row)
    ):
        raise problems.Refused(412, "precondition_failed", "The item is in the trash.")
    row = get_item(read, call.caller, kind, wire_id)
    if row["status"] == ItemStatus.ROOT:
        raise _insufficient("The root folder cannot be changed.")
    found = rights(read, call.caller, row)
    if needed not in found:
        raise _insufficient("You may see this item, but not change it in this way.")
    call.check_if_match(row)
    if not (unlocks and ItemRight.MANAGE in found):
        locks.check(row, call.caller.id, call.store.now())
    return row


def require_admin(caller: Caller) -> None:
    """Raise 403 unless the caller is an administrator."""
    if caller.role not in ("admin", "coadmin"):
        raise problems.Refused(403, "forbidden", "This needs an administrator of the enterprise.")


def get_user(read: Read, caller: Caller, wire_id: str, *, name: str = "user") -> Row:
    """Return a user of the caller's enterprise; 404 if there is none with this id."""
    found = read(
        "SELECT * FROM account WHERE id = ? AND enterprise = ?", parse_id(wire_id), caller.enterprise
    )
    if not found:
        raise problems.not_found(name, wire_id)
    return found[0]


def find_enterprise_item(read: Read, caller: Caller, kind: ItemKind, wire_id: str) -> Row | None:
    """Return any user's item in the caller's enterprise, in any state: for administrators only."""
    number = caller.root if wire_id == wire_names.ROOT_ID and kind is ItemKind.FOLDER else parse_id(wire_id)
    sql = "SELECT item.* FROM item JOIN account ON account.id = item.owner WHERE item.id = ? AND kind = ?"
    found = read(f"{sql} AND enterprise = ?", number, kind, caller.enterprise)
    return found[0] if found else None


def get_target(read: Read, caller: Caller, wire_id: str) -> Row:
    """Return an active folder that the caller may upload to."""
    row = get_item(read, caller, ItemKind.FOLDER, wire_id, name="parent")
    if ItemRight.UPLOAD not in rights(read, caller, row):
        raise _insufficient("You may look at this folder, but put nothing into it.")
    return row


def check_download(call: Call, row: Row) -> None:
    """Raise 403 unless the caller, who sees the file, may download it."""
    require(call.store.read, call.caller, row, ItemRight.DOWNLOAD)
    locks.check_download(row, call.caller.id, call.store.now())


def _insufficient(message: str) -> problems.Refused:
    return problems.Refused(403, "access_denied_insufficient_permissions", message)


def _etag_matches(header: str, row: Row) -> bool:
    """Return whether an etag matches; some clients send it in HTTP's quotes."""
    wanted = {one.strip().removeprefix("W/").strip('"') for one in header.split(",")}
    return "*" in wanted or str(row["etag"]) in wanted
