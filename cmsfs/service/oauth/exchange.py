"""Token exchange: downscopes a token to fewer scopes and, optionally, one item.

The subject is an access token or an application's assertion.  The new token has only scopes that the subject
has, and is bound to the item, which the subject must be able to reach; it expires with the subject.  With an
`actor_token` it is an annotator token: it still belongs to the user, and names somebody else who acts.

Rule: nothing can be widened: each exchange starts from what the subject permits now.
"""

import re
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any
from urllib.parse import urlsplit

from cmsfs.models import wire_names
from cmsfs.models.enterprise import tokens
from cmsfs.service import problems
from cmsfs.service.access import callers, calls, scopes, shared_links
from cmsfs.service.oauth import access_tokens, assertions, clients
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind, ItemStatus

_RESOURCE = re.compile(r"https?://([^/?#]+)/(?:api/)?2\.0/(files|folders)/(\d{1,18})/?", re.ASCII)

_MAX_ACTOR = 255


@dataclass(frozen=True, slots=True)
class _Subject:
    """The token or assertion to downscope."""

    caller: calls.Caller
    row: Row | None  # of the token
    claims: assertions.Claims | None  # or the assertion


async def exchange(token_request: clients.TokenRequest) -> dict[str, Any]:
    """Handle the token-exchange grant."""
    if token_request.form.get("subject_token_type") != tokens.ACCESS_TOKEN_TYPE:
        raise problems.OAuthRefused("invalid_request", "Invalid subject_token_type or parameter missing")
    subject = _subject(token_request)
    caller = subject.caller
    if token_request.has_credentials() and token_request.authenticate()["client_id"] != caller.client_id:
        raise problems.OAuthRefused("invalid_client", "The subject token belongs to another application")
    wanted = _scopes(token_request, caller)
    item, link = _item(token_request, caller)
    actor, actor_claims = _actor(token_request, caller.client_id)
    used = [claims for claims in (subject.claims, actor_claims) if claims is not None]

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = token_request.store.now()
        for claims in used:
            if not assertions.mark_used(conn, claims, now=now):
                return None
        return access_tokens.access_token(
            conn,
            caller.client_id,
            caller.id,
            now=now,
            granted=" ".join(wanted),
            bound=item["id"] if item else caller.bound,
            source=subject.row,
            actor=actor or caller.actor,
            link=link or (None if caller.shared is None else caller.shared.stored),
        )

    made = access_tokens.with_token_type(assertions.require_unused(await token_request.store.write(txn)))
    if item is None and caller.bound is not None:
        # The new token is bound to the same item as its subject.
        found = token_request.store.read("SELECT * FROM item WHERE id = ?", caller.bound)
        item = found[0] if found else None
    more = (
        {"object": item_serializer.ItemSerializer(token_request.store.read, mini=True).item(item)}
        if item
        else {}
    )
    return made | {"restricted_to": [{"scope": scope} | more for scope in wanted]}


def _subject(token_request: clients.TokenRequest) -> _Subject:
    secret = token_request.required("subject_token")
    found = token_request.store.read("SELECT * FROM token WHERE hash = ?", calls.hashed(secret))
    if not found and secret.count(".") == 2:
        return _from_assertion(token_request, secret)
    try:
        return _Subject(
            callers.caller_of_token(token_request.store, secret), found[0] if found else None, None
        )
    except problems.UnauthorizedResponse:
        raise problems.OAuthRefused("invalid_grant", "The subject token is invalid or has expired") from None


def _from_assertion(token_request: clients.TokenRequest, assertion: str) -> _Subject:
    client_id = assertions.issuer(assertion)
    claims = assertions.verify(token_request, assertion, client_id)
    app = token_request.store.read("SELECT * FROM app WHERE client_id = ?", client_id)[0]
    if "jwt_bearer" not in app["grants"].split():
        raise problems.OAuthRefused("unauthorized_client", "The application may not use assertions")
    number = assertions.subject(token_request.store, app, str(claims.get("box_sub_type", "")), claims["sub"])
    user = token_request.store.read("SELECT * FROM account WHERE id = ?", number)[0]
    return _Subject(
        callers.caller_of_user(user, client_id, scopes.effective(app["scopes"], None)),
        row=None,
        claims=claims,
    )


def _scopes(token_request: clients.TokenRequest, caller: calls.Caller) -> list[str]:
    wanted = scopes.split(token_request.required("scope"))
    if not wanted or not scopes.KNOWN.issuperset(wanted):
        raise problems.OAuthRefused("invalid_scope", "The requested scope is unknown")
    if not caller.scopes.issuperset(wanted):
        message = "The subject token does not have all of the requested scopes"
        raise problems.OAuthRefused("invalid_scope", message, status=401)
    return wanted


def _item(token_request: clients.TokenRequest, caller: calls.Caller) -> tuple[Row | None, str | None]:
    """Return the item that the new token is bound to, which the subject must be able to reach.

    Also returns the token of the shared link, if access depends on one.
    """
    resource, link = (
        token_request.form.get(wire_names.RESOURCE),
        token_request.form.get(wire_names.SHARED_LINK),
    )
    if resource is None and link is None:
        return None, None
    if resource is not None and link is not None:
        raise problems.OAuthRefused("invalid_request", "resource and box_shared_link exclude each other")
    row, link_token = None, None
    if link is not None:
        row, link_token = _find_shared(token_request.store, caller, link)
    elif (found := _RESOURCE.fullmatch(resource or "")) is not None and found[1] in _hosts(token_request):
        kind = ItemKind.FILE if found[2] == "files" else ItemKind.FOLDER
        row = calls.find_item(token_request.store.read, caller, kind, found[3])
    if row is None or row["status"] not in (ItemStatus.ACTIVE, ItemStatus.ROOT):
        raise problems.OAuthRefused("invalid_resource", "The resource is no file or folder that can be seen")
    return row, link_token


def _hosts(token_request: clients.TokenRequest) -> set[str]:
    """Return the hosts that addresses of this service's items may have."""
    return {token_request.host, *(urlsplit(one).netloc for one in token_request.audiences)}


def _find_shared(opened: store.Store, caller: calls.Caller, url: str) -> tuple[Row | None, str | None]:
    """Return the file or folder of a shared link, and the link's token if the caller needs it for access.

    A password cannot be given here, so links with one give access to nothing, except for the owner.
    """
    shared = shared_links.by_url(
        opened.read, url, user=caller.id, enterprise=caller.enterprise, now=opened.now()
    )
    if shared is None or (shared.terms["password"] is not None and not shared.is_own):
        return None, None
    row = opened.read("SELECT * FROM item WHERE id = ?", shared.item)[0]
    if row["kind"] == ItemKind.WEB_LINK:
        return None, None
    if calls.rights(opened.read, caller, row):
        return row, None
    # A token bound to another item gives access to nothing else.
    return (None, None) if caller.bound is not None else (row, shared.token)


def _actor(
    token_request: clients.TokenRequest, client_id: str
) -> tuple[dict[str, str] | None, assertions.Claims | None]:
    """Return the actor: an external user known only to the application.

    The subject token proves that the application means it, so an unsigned assertion is accepted; this is what
    clients of the public API send.  The signature of a signed one must be valid.
    """
    assertion = token_request.form.get("actor_token")
    if assertion is None:
        return None, None
    if token_request.form.get("actor_token_type") != tokens.ID_TOKEN_TYPE:
        raise problems.OAuthRefused("invalid_request", "Invalid actor_token_type or parameter missing")
    claims = assertions.verify(token_request, assertion, client_id, unsigned=True)
    name = claims.get("name", "")
    if claims.get("box_sub_type") != "external" or not isinstance(name, str):
        raise problems.OAuthRefused("invalid_grant", "The actor token describes no external user")
    if len(claims["sub"]) > _MAX_ACTOR or len(name) > _MAX_ACTOR:
        raise problems.OAuthRefused("invalid_grant", "The actor's id or name is too long")
    return {"id": claims["sub"], "name": name}, claims
