"""Token exchange: downscopes a token to fewer scopes and, optionally, one item.

What is narrowed is an access token or an application's assertion.  The new token has only scopes that the
old one has, and is bound to the item, which the old one must reach; it ends with the old one.  With an
`actor_token` it is an annotator token: it still speaks for the user, and names somebody else who acts.

Rule: nothing can be widened: each narrowing starts from what the subject is good for now.
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
    """What is to be narrowed."""

    caller: calls.Caller
    row: Row | None  # the token
    claims: assertions.Claims | None  # or the assertion


async def exchange(ask: clients.Ask) -> dict[str, Any]:
    """The token-exchange grant."""
    if ask.form.get("subject_token_type") != tokens.ACCESS_TOKEN_TYPE:
        raise problems.OAuthRefused("invalid_request", "Invalid subject_token_type or parameter missing")
    subject = _subject(ask)
    caller = subject.caller
    if ask.has_credentials() and ask.authenticate()["client_id"] != caller.client_id:
        raise problems.OAuthRefused("invalid_client", "The subject token belongs to another application")
    wanted = _scopes(ask, caller)
    item, link = _item(ask, caller)
    actor, actor_claims = _actor(ask, caller.client_id)
    used = [claims for claims in (subject.claims, actor_claims) if claims is not None]

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = ask.store.now()
        for claims in used:
            if not assertions.use(conn, claims, now=now):
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
            link=link or (None if caller.shared is None else caller.shared.kept),
        )

    made = access_tokens.with_kind(assertions.taken_once(await ask.store.write(txn)))
    if item is None and caller.bound is not None:
        # It is bound to what its subject was.
        found = ask.store.read("SELECT * FROM item WHERE id = ?", caller.bound)
        item = found[0] if found else None
    more = {"object": item_serializer.ItemSerializer(ask.store.read, mini=True).item(item)} if item else {}
    return made | {"restricted_to": [{"scope": scope} | more for scope in wanted]}


def _subject(ask: clients.Ask) -> _Subject:
    secret = ask.required("subject_token")
    found = ask.store.read("SELECT * FROM token WHERE hash = ?", calls.hashed(secret))
    if not found and secret.count(".") == 2:
        return _from_assertion(ask, secret)
    try:
        return _Subject(callers.of_token(ask.store, secret), found[0] if found else None, None)
    except problems.UnauthorizedResponse:
        raise problems.OAuthRefused("invalid_grant", "The subject token is invalid or has expired") from None


def _from_assertion(ask: clients.Ask, assertion: str) -> _Subject:
    client_id = assertions.issuer(assertion)
    claims = assertions.verify(ask, assertion, client_id)
    app = ask.store.read("SELECT * FROM app WHERE client_id = ?", client_id)[0]
    if "jwt_bearer" not in app["grants"].split():
        raise problems.OAuthRefused("unauthorized_client", "The application may not use assertions")
    number = assertions.subject(ask.store, app, str(claims.get("box_sub_type", "")), claims["sub"])
    user = ask.store.read("SELECT * FROM account WHERE id = ?", number)[0]
    return _Subject(
        callers.speaks_for(user, client_id, scopes.effective(app["scopes"], None)), row=None, claims=claims
    )


def _scopes(ask: clients.Ask, caller: calls.Caller) -> list[str]:
    wanted = scopes.split(ask.required("scope"))
    if not wanted or not scopes.KNOWN.issuperset(wanted):
        raise problems.OAuthRefused("invalid_scope", "The requested scope is unknown")
    if not caller.scopes.issuperset(wanted):
        said = "The subject token does not have all of the requested scopes"
        raise problems.OAuthRefused("invalid_scope", said, status=401)
    return wanted


def _item(ask: clients.Ask, caller: calls.Caller) -> tuple[Row | None, str | None]:
    """The item that the new token is to be bound to, which the subject must reach.

    And the word of the shared link that shows it, if it is by that.
    """
    resource, link = ask.form.get(wire_names.RESOURCE), ask.form.get(wire_names.SHARED_LINK)
    if resource is None and link is None:
        return None, None
    if resource is not None and link is not None:
        raise problems.OAuthRefused("invalid_request", "resource and box_shared_link exclude each other")
    row, word = None, None
    if link is not None:
        row, word = _find_shared(ask.store, caller, link)
    elif (found := _RESOURCE.fullmatch(resource or "")) is not None and found[1] in _hosts(ask):
        kind = ItemKind.FILE if found[2] == "files" else ItemKind.FOLDER
        row = calls.find_item(ask.store.read, caller, kind, found[3])
    if row is None or row["status"] not in (ItemStatus.ACTIVE, ItemStatus.ROOT):
        raise problems.OAuthRefused("invalid_resource", "The resource is no file or folder that can be seen")
    return row, word


def _hosts(ask: clients.Ask) -> set[str]:
    """The hosts that the addresses of this service's items may have."""
    return {ask.host, *(urlsplit(one).netloc for one in ask.audiences)}


def _find_shared(opened: store.Store, caller: calls.Caller, url: str) -> tuple[Row | None, str | None]:
    """The file or folder that a shared link shows to the caller, and the link's word, if it is needed.

    There is no place here for a password, so that links with one show nothing, except to the owner.
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
    # A token that is bound to something else is good for nothing beside it.
    return (None, None) if caller.bound is not None else (row, shared.word)


def _actor(ask: clients.Ask, client_id: str) -> tuple[dict[str, str] | None, assertions.Claims | None]:
    """Who is to act: somebody that only the application knows.

    The subject token says that the application means it, so that an unsigned assertion will do; this is
    what clients of the public API send.  A signed one must be signed rightly.
    """
    assertion = ask.form.get("actor_token")
    if assertion is None:
        return None, None
    if ask.form.get("actor_token_type") != tokens.ID_TOKEN_TYPE:
        raise problems.OAuthRefused("invalid_request", "Invalid actor_token_type or parameter missing")
    claims = assertions.verify(ask, assertion, client_id, unsigned=True)
    name = claims.get("name", "")
    if claims.get("box_sub_type") != "external" or not isinstance(name, str):
        raise problems.OAuthRefused("invalid_grant", "The actor token describes no external user")
    if len(claims["sub"]) > _MAX_ACTOR or len(name) > _MAX_ACTOR:
        raise problems.OAuthRefused("invalid_grant", "The actor's id or name is too long")
    return {"id": claims["sub"], "name": name}, claims
