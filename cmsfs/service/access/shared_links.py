"""Shared links: set and removed with an item's other properties, and what a link gives access to.

A link is a random token in the item's row, with its terms beside it as a JSON object.  It gives access to the
item and, for a folder, to everything below.  A request uses a link through the header `boxapi`
(`shared_link=URL&shared_link_password=...`).

Rule: an expired link, and one whose item is in the trash, is no link.
"""

import dataclasses
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection, Row
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cmsfs.models.content import events, items
from cmsfs.runtime import chance, clock
from cmsfs.service import problems
from cmsfs.service.access import group_rights, link_passwords
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import ItemKind, ItemStatus
from cmsfs.service.storage.store import Read, Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# How long search includes items that a user accessed by a link, and the most links that it considers.
RECENT = 30 * 86_400 * 1_000_000
MAX_RECENT = 100
# Repeated use of a link within a minute is not recorded again.
_USE_INTERVAL = 60 * 1_000_000

# Longer headers contain no link of ours.
MAX_HEADER = 4096


@dataclass(frozen=True, slots=True)
class Shared:
    """What a shared link gives access to."""

    item: int
    below: str  # path prefix of the items below
    can_download: bool
    can_edit: bool
    is_own: bool  # the item belongs to the requesting user
    token: str
    terms: dict[str, Any] = field(hash=False)
    mark: str = ""  # hash of the password that the user knew; empty if not tied to a password

    @property
    def url(self) -> str:
        return f"{self.terms['origin']}/s/{self.token}"

    @property
    def stored(self) -> str:
        """Return the text that a token or signed URL stores of the link, for `from_stored`."""
        return f"{self.token} {self.mark}" if self.mark else self.token

    def bound_to_password(self) -> "Shared":
        """Return a copy that is valid only with the link's present password, or with none if it has none."""
        named = f"{self.token}\0{self.terms['password']}"
        return dataclasses.replace(self, mark=hashlib.sha256(named.encode()).hexdigest()[:32])

    def shows(self, row: Row) -> bool:
        path: str = row["path"]
        return row["status"] == ItemStatus.ACTIVE and (row["id"] == self.item or path.startswith(self.below))


def columns(
    row: Row, wish: items.NewSharedLink | None, rights: ItemRight, *, origin: str, now: int
) -> tuple[dict[str, Any], str | None]:
    """Return the columns for a request's `shared_link`, and the event for the change.

    `rights` are the caller's on the item and include LINK.  `origin` is the origin of the request's URL,
    `https://host`: the link's URL begins with it.
    """
    old = _current_terms(row, now)
    # Without the right to set terms, a user may still create a link with default terms, or get the existing
    # one.
    if ItemRight.LINK_TERMS not in rights and (wish is None or wish.model_fields_set or old is not None):
        if wish is not None and not wish.model_fields_set:
            return {}, None
        message = "You may make a shared link, but not say for whom it is."
        raise problems.Refused(403, "access_denied_insufficient_permissions", message)
    if wish is None:
        return {"link": None, "link_terms": None}, events.UNSHARE if old else None
    terms = dict(old or {"access": "open", "password": None, "ends": None, "download": True, "edit": False})
    terms["origin"] = origin
    given = wish.model_fields_set
    if wish.access is not None:
        terms["access"] = wish.access
    if "password" in given:
        terms["password"] = None if wish.password is None else link_passwords.hash_with_salt(wish.password)
    if "unshared_at" in given:
        terms["ends"] = _parse_expiry(wish.unshared_at, now)
    if wish.permissions is not None:
        for name in ("download", "edit"):
            allowed = getattr(wish.permissions, f"can_{name}")
            terms[name] = terms[name] if allowed is None else allowed
    if terms["edit"] and not (terms["download"] and row["kind"] == ItemKind.FILE):
        message = "goes only with can_download, and only for files"
        raise problems.invalid("shared_link.permissions.can_edit", message)
    token = row["link"] if old else chance.token_urlsafe(24)
    event = events.SHARE_UPDATE if old else events.SHARE
    return {"link": token, "link_terms": json.dumps(terms)}, event


def _parse_expiry(when: datetime | None, now: int) -> int | None:
    if when is None:
        return None
    ends = (when - _EPOCH) // timedelta(microseconds=1)
    if ends <= now:
        raise problems.invalid("shared_link.unshared_at", "must be in the future")
    return ends


def _current_terms(row: Row, now: int) -> dict[str, Any] | None:
    if row["link"] is None or row["status"] != ItemStatus.ACTIVE:
        return None
    terms: dict[str, Any] = json.loads(row["link_terms"])
    return None if terms["ends"] is not None and terms["ends"] <= now else terms


def shape(row: Row) -> dict[str, Any] | None:
    """Return the link as JSON; null if there is none."""
    terms = _current_terms(row, clock.time_ns() // 1000)
    if terms is None:
        return None
    permission = "can_edit" if terms["edit"] else "can_download" if terms["download"] else "can_preview"
    direct = row["kind"] == ItemKind.FILE and terms["download"]
    return {
        "url": url(row),
        "download_url": f"{terms['origin']}/shared/static/{row['link']}" if direct else None,
        "vanity_url": None,
        "vanity_name": None,
        "access": terms["access"],
        "effective_access": terms["access"],
        "effective_permission": permission,
        "is_password_enabled": terms["password"] is not None,
        "unshared_at": None
        if terms["ends"] is None
        else (_EPOCH + timedelta(microseconds=terms["ends"])).isoformat(),
        "download_count": 0,
        "preview_count": 0,
        "permissions": {"can_preview": True, "can_download": terms["download"], "can_edit": terms["edit"]},
    }


def resolve(
    read: Read,
    header: str,
    *,
    user: int,
    enterprise: int,
    now: int,
    who: link_passwords.Guesser | None = None,
) -> Shared | None:
    """Return what the link in a request's header gives a user access to, or None.

    403 for a missing or wrong password, 429 after too many wrong ones.
    """
    if len(header) > MAX_HEADER:
        return None
    given = {name: values[-1] for name, values in parse_qs(header).items()}
    found = by_url(read, given.get("shared_link", ""), user=user, enterprise=enterprise, now=now)
    if found is not None and not found.is_own:
        link_passwords.check(found.terms, given.get("shared_link_password"), who)
    return found


def by_url(read: Read, address: str, *, user: int, enterprise: int, now: int) -> Shared | None:
    """Return what the link with this URL gives a user access to, or None; ignores its password."""
    try:
        token = urlsplit(address).path.rpartition("/")[2]
    except ValueError:
        return None
    return find(read, token, user=user, enterprise=enterprise, now=now) if token else None


def find(read: Read, token: str, *, user: int, enterprise: int, now: int) -> Shared | None:
    """Return what a link gives a user access to, or None; ignores its password."""
    rows = read(
        "SELECT item.*, account.enterprise FROM item JOIN account ON account.id = item.owner WHERE link = ?",
        token,
    )
    terms = _current_terms(rows[0], now) if rows else None
    if terms is None:
        return None
    row = rows[0]
    is_own = row["owner"] == user
    if not is_own:
        if terms["access"] == "company" and row["enterprise"] != enterprise:
            return None
        # Such a link adds nothing to the rights of collaborators.
        if terms["access"] == "collaborators" and not _collaborates(read, row, user, now):
            return None
    below = f"{row['path']}{row['id']}/"
    return Shared(row["id"], below, terms["download"], terms["edit"], is_own, token, terms)


def recent(read: Read, *, user: int, enterprise: int) -> dict[int, Shared]:
    """Return the links of others that a user used recently and that are still valid, by item."""
    now = clock.time_ns() // 1000
    rows = read(
        "SELECT recent_link.* FROM recent_link JOIN item ON item.id = recent_link.item"
        " WHERE account = ? AND used_at > ? AND item.link = recent_link.link ORDER BY used_at DESC LIMIT ?",
        user,
        now - RECENT,
        MAX_RECENT,
    )
    found = {}
    for row in rows:
        shared = find(read, row["link"], user=user, enterprise=enterprise, now=now)
        if shared is not None and not shared.is_own:
            found[shared.item] = shared
    return found


def from_stored(read: Read, stored: str, *, user: int, enterprise: int, now: int) -> Shared | None:
    """Look up a link stored by `Shared.stored`; None if it is invalid now or its password has changed."""
    token, _, mark = stored.partition(" ")
    found = find(read, token, user=user, enterprise=enterprise, now=now)
    if found is None or not mark:
        return found
    marked = found.bound_to_password()
    return marked if hmac.compare_digest(marked.mark, mark) else None


async def record_use(opened: Store, user: int, shared: Shared) -> None:
    """Record that a user used a link of somebody else."""
    now = opened.now()
    sql = "SELECT 1 FROM recent_link WHERE account = ? AND item = ? AND link = ? AND used_at > ?"
    if shared.is_own or opened.read(sql, user, shared.item, shared.token, now - _USE_INTERVAL):
        return

    def txn(conn: Connection) -> None:
        conn.execute("DELETE FROM recent_link WHERE account = ? AND used_at < ?", (user, now - RECENT))
        values = (user, shared.item, shared.token, now)
        conn.execute(
            "INSERT INTO recent_link VALUES (?, ?, ?, ?) ON CONFLICT (account, item)"
            " DO UPDATE SET link = excluded.link, used_at = excluded.used_at",
            values,
        )

    await opened.write(txn)


def _collaborates(read: Read, row: Row, user: int, now: int) -> bool:
    numbers = tree_paths.line(row)
    sql = (
        f"SELECT 1 FROM collaboration AS c WHERE {group_rights.HELD} AND c.status = 'accepted'"
        " AND coalesce(c.expires_at > ?2, true)"
        " AND c.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?3)) LIMIT 1"
    )
    return bool(read(sql, user, now, json.dumps(numbers)))


def url(row: Row) -> str | None:
    """Return the URL of an item's link; None if it has no valid one."""
    terms = _current_terms(row, clock.time_ns() // 1000)
    return None if terms is None else f"{terms['origin']}/s/{row['link']}"


def find_open(read: Read, token: str, now: int) -> Row | None:
    """Return the file of a link that is open to anybody, without a password."""
    found = read("SELECT * FROM item WHERE link = ? AND kind = ?", token, ItemKind.FILE)
    terms = _current_terms(found[0], now) if found else None
    if terms is None or terms["access"] != "open" or terms["password"] is not None or not terms["download"]:
        return None
    return found[0]
