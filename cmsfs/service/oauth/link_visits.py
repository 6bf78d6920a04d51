"""The shared-link grant: a token for what a link shows to anybody who has it, without an account.

It is bound to the link's item, and every use judges the link as it is by then: what it lets be downloaded and
changed, whether it has ended, and that its password is the one that was named here.

Rule: without the right word there is nothing, and nothing says whether there was; wrong passwords are
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


async def visit(ask: clients.Ask) -> dict[str, Any]:
    shared, row = _shown(ask)
    granted = _CHANGING if shared.can_edit else _READING

    def txn(conn: Connection) -> dict[str, Any]:
        now = ask.store.now()
        return access_tokens.access_token(
            conn,
            visitors.APP,
            visitors.user(conn, now=now),
            now=now,
            granted=granted,
            bound=row["id"],
            link=shared.kept,
        )

    made = await ask.store.write(txn)
    item = item_serializer.ItemSerializer(ask.store.read, mini=True).item(row)
    return made | {"restricted_to": [{"scope": scope, "object": item} for scope in granted.split()]}


def _shown(ask: clients.Ask) -> tuple[shared_links.Shared, Row]:
    """What the link shows to who has no account, and the item's row."""
    url = ask.required("shared_link")
    if len(url) > shared_links.MAX_HEADER:
        raise _nothing()
    # Nobody's number, in nobody's enterprise.
    shared = shared_links.by_url(ask.store.read, url, user=0, enterprise=0, now=ask.store.now())
    if shared is None:
        raise _nothing()
    who = link_passwords.Guesser(ask.store.attempts, f"address:{ask.who}")
    try:
        link_passwords.check(shared.terms, ask.form.get("shared_link_password") or None, who)
    except problems.Refused as refused:
        if refused.status == 403:
            raise problems.OAuthRefused(tokens.LINK_PASSWORD, refused.message) from None
        said, headers = refused.message, refused.headers
        raise problems.OAuthRefused("rate_limit_exceeded", said, status=429, headers=headers) from None
    row = ask.store.read("SELECT * FROM item WHERE id = ?", shared.item)[0]
    if row["kind"] == ItemKind.WEB_LINK:
        raise _nothing()
    return shared.marked(), row


def _nothing() -> problems.OAuthRefused:
    said = "The shared link shows no file or folder to who has no account"
    return problems.OAuthRefused("invalid_grant", said)
