"""Shared links: set and taken away with an item's other properties, and what one shows to whom.

A link is a word of random letters in the item's row, and its terms beside it as a JSON object.  It shows
the item and, of a folder, everything below.  A request names a link in the header `boxapi`
(`shared_link=URL&shared_link_password=...`).

Rule: a link that has ended, or whose item is in the trash, is no link.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from sqlite3 import Row
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from cmsfs.models import events
from cmsfs.models import items as shapes
from cmsfs.service import problems
from cmsfs.service.kinds import Kind, Status
from cmsfs.service.store import Read

if TYPE_CHECKING:
    from cmsfs.service import access

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A header that is longer names no link of ours.
MAX_HEADER = 4096


@dataclass(frozen=True, slots=True)
class Shared:
    """What a shared link shows."""

    item: int
    below: str  # how the paths of what is below begin
    can_download: bool
    can_edit: bool

    def shows(self, row: Row) -> bool:
        path: str = row["path"]
        return row["status"] == Status.ACTIVE and (row["id"] == self.item or path.startswith(self.below))


def columns(
    call: "access.Call", row: Row, wish: shapes.NewSharedLink | None
) -> tuple[dict[str, Any], str | None]:
    """What a request's `shared_link` makes of the columns, and the event for it."""
    if row["owner"] != call.caller.id:
        said = "Only the owner may share an item."
        raise problems.Refused(403, "access_denied_insufficient_permissions", said)
    now = call.store.now()
    old = _terms(row, now)
    if wish is None:
        return {"link": None, "link_terms": None}, events.UNSHARE if old else None
    url = call.request.url
    terms = dict(old or {"access": "open", "password": None, "ends": None, "download": True, "edit": False})
    terms["origin"] = f"{url.scheme}://{url.netloc}"
    given = wish.model_fields_set
    if wish.access is not None:
        terms["access"] = wish.access
    if "password" in given:
        terms["password"] = None if wish.password is None else _salted(wish.password)
    if "unshared_at" in given:
        terms["ends"] = _end(wish.unshared_at, now)
    if wish.permissions is not None:
        for name in ("download", "edit"):
            allowed = getattr(wish.permissions, f"can_{name}")
            terms[name] = terms[name] if allowed is None else allowed
    if terms["edit"] and not (terms["download"] and row["kind"] == Kind.FILE):
        said = "goes only with can_download, and only for files"
        raise problems.invalid("shared_link.permissions.can_edit", said)
    word = row["link"] if old else secrets.token_urlsafe(24)
    event = events.SHARE_UPDATE if old else events.SHARE
    return {"link": word, "link_terms": json.dumps(terms)}, event


def _end(when: datetime | None, now: int) -> int | None:
    if when is None:
        return None
    ends = (when - _EPOCH) // timedelta(microseconds=1)
    if ends <= now:
        raise problems.invalid("shared_link.unshared_at", "must be in the future")
    return ends


def _salted(password: str) -> str:
    salt = secrets.token_hex(8)
    return f"{salt}:{_hash(salt, password)}"


def _hash(salt: str, password: str) -> str:
    # People choose these: it shall cost something to try many.  10 ms; it happens on the loop.
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt.encode(), n=4096, r=8, p=1).hex()


def _terms(row: Row, now: int) -> dict[str, Any] | None:
    if row["link"] is None or row["status"] != Status.ACTIVE:
        return None
    terms: dict[str, Any] = json.loads(row["link_terms"])
    return None if terms["ends"] is not None and terms["ends"] <= now else terms


def shape(row: Row) -> dict[str, Any] | None:
    """The link as it is answered; null if there is none."""
    terms = _terms(row, time.time_ns() // 1000)
    if terms is None:
        return None
    permission = "can_edit" if terms["edit"] else "can_download" if terms["download"] else "can_preview"
    direct = row["kind"] == Kind.FILE and terms["download"]
    return {
        "url": f"{terms['origin']}/s/{row['link']}",
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


def resolve(read: Read, header: str, *, user: int, enterprise: int, now: int) -> Shared | None:
    """What the link of a request's header shows to a user; None for a link that shows nothing.

    403 for a missing or wrong password.
    """
    if len(header) > MAX_HEADER:
        return None
    given = {name: values[-1] for name, values in parse_qs(header).items()}
    try:
        word = urlsplit(given.get("shared_link", "")).path.rpartition("/")[2]
    except ValueError:
        return None
    found = read("SELECT * FROM item WHERE link = ?", word) if word else []
    terms = _terms(found[0], now) if found else None
    if terms is None:
        return None
    row = found[0]
    if row["owner"] != user:
        owner = read("SELECT enterprise FROM user WHERE id = ?", row["owner"])[0]
        same = owner["enterprise"] == enterprise
        if terms["access"] == "collaborators" or (terms["access"] == "company" and not same):
            return None
        check_password(terms, given.get("shared_link_password"))
    return Shared(row["id"], f"{row['path']}{row['id']}/", terms["download"], terms["edit"])


def check_password(terms: dict[str, Any], given: str | None) -> None:
    if terms["password"] is None:
        return
    salt, _, expected = terms["password"].partition(":")
    if given is None or not hmac.compare_digest(_hash(salt, given), expected):
        said = "The shared link has a password, and this is not it."
        raise problems.Refused(403, "incorrect_shared_item_password", said)


def find_open(read: Read, word: str, now: int) -> Row | None:
    """The file that a link shows to anybody at all."""
    found = read("SELECT * FROM item WHERE link = ? AND kind = ?", word, Kind.FILE)
    terms = _terms(found[0], now) if found else None
    if terms is None or terms["access"] != "open" or terms["password"] is not None or not terms["download"]:
        return None
    return found[0]
