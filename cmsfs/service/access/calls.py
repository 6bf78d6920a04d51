"""The context of one request: its caller, and what that caller may see and do.

`guarded` makes a Starlette endpoint of a handler: it checks the bearer token and its scopes (see scopes.py)
and hands the handler a `Call`.  `get_item`, `get_trashed`, `get_target` and `get_for_change` are the ways to
an item by its id; each names the rights that it needs, which access_rights.py finds.  Many items at once are
found by listings of a folder that may be seen, and by search (search_plan.py).

Rule: what may not be seen does not exist: 404, never 403.
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

# Every capability speaks of these as what `access` is about.
from cmsfs.service.access.callers import Caller as Caller
from cmsfs.service.access.callers import hashed as hashed
from cmsfs.service.access.callers import parse_id as parse_id
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus
from cmsfs.service.storage.store import Read, Store

M = TypeVar("M", bound=pydantic.BaseModel)

# A body of JSON that is larger than this is no request of ours.
MAX_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request."""

    request: requests.Request
    store: Store
    caller: Caller
    data: bytes | None = None  # the body, if it had to be judged before

    @property
    def id(self) -> str:
        """The id in the path."""
        wire_id: str = self.request.path_params["id"]
        return wire_id

    @property
    def fields(self) -> list[str] | None:
        """The fields that were asked for; None is the standard answer."""
        asked = self.request.query_params.get("fields")
        return (
            None if asked is None else [name for part in asked.split(",") if (name := part.strip())] or None
        )

    def flag(self, name: str) -> bool:
        """A boolean of the query string, however the client's language writes it."""
        return self.request.query_params.get(name, "").lower() in ("true", "1")

    async def body(self, model: type[M]) -> M:
        """The JSON body as a model; an absent body is an empty object."""
        data = await read_body(self.request) if self.data is None else self.data
        if data:
            check_json(self.request)
        return model.model_validate_json(data or b"{}")

    def check_if_match(self, row: Row) -> None:
        """412 unless the item still has the etag that the client started from."""
        wanted = self.request.headers.get("if-match")
        if wanted is not None and not _etag_matches(wanted, row):
            raise problems.Refused(
                412, "precondition_failed", "The item has changed since the version you have."
            )

    def is_unchanged(self, row: Row) -> bool:
        """Whether the client has this very version already (If-None-Match)."""
        known = self.request.headers.get("if-none-match")
        return known is not None and _etag_matches(known, row)


Handler = Callable[[Call], Awaitable[responses.Response]]


def guarded(handler: Handler) -> Callable[[requests.Request], Awaitable[responses.Response]]:
    """A handler as an endpoint that only bearers of a living token with the scopes for it reach."""

    async def endpoint(request: requests.Request) -> responses.Response:
        store: Store = request.app.store
        caller = _caller(store, request)
        request.scope["acting_id"] = caller.by
        # Who comes by a link counts with all who come by it, and not with those who come by others.
        whose = -(caller.bound or 0) if caller.is_visitor else caller.id
        request.app.admit(request, whose, whose if caller.is_visitor else caller.enterprise)
        actors.begin(caller.actor, request)
        if caller.shared is not None and "boxapi" in request.headers:
            await shared_links.remember(store, caller.id, caller.shared)
        data = await _judge_scopes(request, caller)
        terms.check(
            store.read, caller, request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        )
        return await handler(Call(request, store, caller, data))

    return endpoint


async def _judge_scopes(request: requests.Request, caller: Caller) -> bytes | None:
    """403 unless the token is good for this operation; the body, if that depends on it."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    need = scopes.find(request.method, path) or scopes.UNLISTED
    data = None
    allowed = need.visitors if caller.is_visitor else need.bound or caller.bound is None
    if allowed and not need.is_met(caller.scopes):
        data = await read_body(request) if need.fields else None
        allowed = data is not None and need.is_met_by_fields(caller.scopes, _names(data))
    if not allowed:
        raise problems.Refused(
            403,
            "insufficient_scope",
            "The access token is not good for this operation.",
            headers={"WWW-Authenticate": 'Bearer realm="Service", error="insufficient_scope"'},
        )
    return data


def _names(data: bytes) -> list[str]:
    """The names of the fields of a JSON body; of one that is no object, one that no scope allows."""
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return [""]
    return list(found) if isinstance(found, dict) else [""]


def check_json(request: requests.Request) -> None:
    """415 for a body that says of itself that it is not JSON."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said and said != "application/json" and not said.endswith("+json"):
        raise problems.Refused(415, "unsupported_media_type", "The body must be JSON.")


def answer(body: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> responses.Response:
    """A JSON answer."""
    return responses.Response(pydantic_core.to_json(body), status, headers, media_type="application/json")


async def read_body(request: requests.Request, limit: int = MAX_BODY) -> bytes:
    """The whole body; 413 if it is larger than any request of this kind."""
    parts, size = [], 0
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > limit:
                said = f"The body has more than {limit} bytes."
                raise problems.Refused(413, "request_entity_too_large", said)
    return b"".join(parts)


def _caller(store: Store, request: requests.Request) -> Caller:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise problems.UnauthorizedResponse
    caller = callers.of_token(store, token.strip(), as_user=request.headers.get("as-user"))
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
    """An item that the caller may see, in whatever state; `0` is the caller's root folder."""
    number = parse_id(wire_id)
    if number is None:
        return None
    if wire_id == wire_names.ROOT_ID and kind is ItemKind.FOLDER:
        number = caller.root
    # The kind as a constant: see `search_plan`.
    found = read(f"SELECT * FROM item WHERE id = ? AND kind = {kind:d}", number)
    # A root has one id on the wire, 0; its number is nobody's business.
    if not found or (found[0]["status"] == ItemStatus.ROOT and wire_id != wire_names.ROOT_ID):
        return None
    return found[0] if rights(read, caller, found[0]) else None


def rights(read: Read, caller: Caller, row: Row) -> ItemRight:
    """What the caller may do with an item."""
    return access_rights.View(read, caller).rights(row)


def require(read: Read, caller: Caller, row: Row, needed: ItemRight) -> None:
    """403 unless the caller, who sees the item, has these rights on it."""
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
    """An active item that the caller may see; 404 `not_found`, or `trashed` if it is in the trash.

    403 without the rights that are needed beyond that.
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
    """An item in the caller's trash: of their own, or of others and put there by the caller.

    404 `not_trashed` for a living one, `not_found` for what lies below such.
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
    """Whether a trashed item is in the caller's trash."""
    found = rights(read, caller, row)
    return ItemRight.OWN in found or (row["trashed_by"] == caller.id and ItemRight.MOVE in found)


def get_for_change(
    read: Read, call: Call, kind: ItemKind, wire_id: str, *, needed: ItemRight, unlocks: bool = False
) -> Row:
    """An active item that the caller may change in this way, at the version the caller started from.

    A root cannot be changed: 403.  An item that went into the trash with the very etag of `If-Match` is
    412; with another it is 404, as without the header.  `unlocks`: a lock of somebody else does not stop
    who manages the item.
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
    """403 for who does not administer the enterprise."""
    if caller.role not in ("admin", "coadmin"):
        raise problems.Refused(403, "forbidden", "This needs an administrator of the enterprise.")


def get_user(read: Read, caller: Caller, wire_id: str, *, name: str = "user") -> Row:
    """A user of the caller's enterprise; 404 if there is none with this id."""
    found = read(
        "SELECT * FROM account WHERE id = ? AND enterprise = ?", parse_id(wire_id), caller.enterprise
    )
    if not found:
        raise problems.not_found(name, wire_id)
    return found[0]


def find_enterprise_item(read: Read, caller: Caller, kind: ItemKind, wire_id: str) -> Row | None:
    """An item of anybody in the caller's enterprise, in whatever state: for administrators only."""
    number = caller.root if wire_id == wire_names.ROOT_ID and kind is ItemKind.FOLDER else parse_id(wire_id)
    sql = "SELECT item.* FROM item JOIN account ON account.id = item.owner WHERE item.id = ? AND kind = ?"
    found = read(f"{sql} AND enterprise = ?", number, kind, caller.enterprise)
    return found[0] if found else None


def get_target(read: Read, caller: Caller, wire_id: str) -> Row:
    """An active folder that the caller may put something into."""
    row = get_item(read, caller, ItemKind.FOLDER, wire_id, name="parent")
    if ItemRight.UPLOAD not in rights(read, caller, row):
        raise _insufficient("You may look at this folder, but put nothing into it.")
    return row


def check_download(call: Call, row: Row) -> None:
    """403 unless the caller, who sees the file, may have its bytes."""
    require(call.store.read, call.caller, row, ItemRight.DOWNLOAD)
    locks.check_download(row, call.caller.id, call.store.now())


def _insufficient(said: str) -> problems.Refused:
    return problems.Refused(403, "access_denied_insufficient_permissions", said)


def _etag_matches(header: str, row: Row) -> bool:
    """Etags are plain small numbers; some clients put them into HTTP's quotes."""
    wanted = {one.strip().removeprefix("W/").strip('"') for one in header.split(",")}
    return "*" in wanted or str(row["etag"]) in wanted
