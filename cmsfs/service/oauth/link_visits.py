"""The shared-link grant: a token for what a link shows to anybody who has it, without an account.

It is bound to the link's item, and each use checks the link as it is then: its download and edit permissions,
its expiry, and that its password is still the one given here.

Rule: an unknown or inaccessible link gives nothing, and the response does not tell which; wrong passwords are
throttled by the address that they come from.
"""

from sqlite3 import Connection, Row
from typing import Any

from cmsfs.models.enterprise import tokens
from cmsfs.service import problems
from cmsfs.service.access import link_passwords, shared_links
from cmsfs.service.oauth import access_tokens, clients
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import visitors
from cmsfs.service.storage.kinds import ItemKind

_READING = "base_explorer item_download"
_CHANGING = "base_explorer item_download item_upload"


async def visit(token_request: clients.TokenRequest) -> dict[str, Any]:
    shared, row = _find_shared(token_request)
    granted = _CHANGING if shared.can_edit else _READING

    def txn(conn: Connection) -> dict[str, Any]:
        now = token_request.store.now()
        return access_tokens.access_token(
            conn,
            visitors.APP,
            visitors.user(conn, now=now),
            now=now,
            granted=granted,
            bound=row["id"],
            link=shared.stored,
        )

    made = await token_request.store.write(txn)
    item = item_serializer.ItemSerializer(token_request.store.read, mini=True).item(row)
    return made | {"restricted_to": [{"scope": scope, "object": item} for scope in granted.split()]}


def _find_shared(token_request: clients.TokenRequest) -> tuple[shared_links.Shared, Row]:
    """Return what the link shows to a visitor without an account, and the item's row."""
    url = token_request.required("shared_link")
    if len(url) > shared_links.MAX_HEADER:
        raise _no_access()
    # No user, and no enterprise.
    shared = shared_links.by_url(
        token_request.store.read, url, user=0, enterprise=0, now=token_request.store.now()
    )
    if shared is None:
        raise _no_access()
    who = link_passwords.Guesser(token_request.store.attempts, f"address:{token_request.who}")
    try:
        link_passwords.check(shared.terms, token_request.form.get("shared_link_password") or None, who)
    except problems.Refused as refused:
        if refused.status == 403:
            raise problems.OAuthRefused(tokens.LINK_PASSWORD, refused.message) from None
        message, headers = refused.message, refused.headers
        raise problems.OAuthRefused("rate_limit_exceeded", message, status=429, headers=headers) from None
    row = token_request.store.read("SELECT * FROM item WHERE id = ?", shared.item)[0]
    if row["kind"] == ItemKind.WEB_LINK:
        raise _no_access()
    return shared.bound_to_password(), row


def _no_access() -> problems.OAuthRefused:
    message = "The shared link shows no file or folder to who has no account"
    return problems.OAuthRefused("invalid_grant", message)
