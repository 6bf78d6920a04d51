"""Browser sessions: the login cookie, and CSRF tokens of forms.

The cookie is random; before the log-in it only ties the form to the browser, at the log-in it is replaced,
so that nobody can plant one.  A form carries a value made of the cookie, which no other site can know.

There are three doors: the authorize page, the administrators' pages and the people's.  Who came in by one is
not in by the others.

Browsers send a cookie to every port of a host, so to other users of a machine too, if these get the browser
to their own.  The cookies of the pages therefore go to a path that nobody can guess, and count there.

Rule: of a cookie only the hash is stored, and it counts for a limited time.
"""

import hashlib
import hmac
from dataclasses import dataclass
from sqlite3 import Connection, Row

from starlette import requests, responses

from cmsfs.runtime import chance
from cmsfs.service.access import calls
from cmsfs.service.storage.store import Store

FIELD = "form_proof"

_MAX_COOKIE = 100


@dataclass(frozen=True, slots=True)
class Door:
    """What people log in to: the cookie that says so, where browsers send it, and for how long it counts.

    `strict` cookies do not come along when another site leads here.
    """

    cookie: str
    lifetime_seconds: int
    path: str = "/"
    strict: bool = False

    def name(self, request: requests.Request) -> str:
        """What the cookie is called: over TLS so that nothing without TLS, nor another host, can set it."""
        if request.url.scheme != "https":
            return self.cookie
        return f"{'__Host-' if self.path == '/' else '__Secure-'}{self.cookie}"

    def hashed(self, secret: str) -> str:
        return calls.hashed(f"{self.cookie}:{secret}")


# An application leads here from a page of its own.
AUTHORIZE = Door("cmsfs_login", 900)
ADMIN = Door("cmsfs_admin", 4 * 3600, path="/admin", strict=True)
WEB = Door("cmsfs_web", 12 * 3600, path="/web", strict=True)


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser, and the user who logged in there, if anybody did."""

    door: Door
    secret: str
    user: Row | None
    is_new: bool

    @property
    def place(self) -> str:
        """A word for addresses that this browser alone knows."""
        return hmac.new(self.secret.encode(), b"place", hashlib.sha256).hexdigest()[:32]

    @property
    def proof(self) -> str:
        """What a form has to carry."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()

    def owns(self, form: dict[str, str]) -> bool:
        """Whether a form was made for this browser."""
        given = form.get(FIELD, "").encode("utf-8", "replace")
        return not self.is_new and hmac.compare_digest(given, self.proof.encode())


def visit(store: Store, request: requests.Request, door: Door = AUTHORIZE) -> Visit:
    """Who looks at the page."""
    secret = request.cookies.get(door.name(request), "")
    if not secret or len(secret) > _MAX_COOKIE:
        return Visit(door, chance.token_urlsafe(32), None, is_new=True)
    found = store.read(
        "SELECT account.* FROM login JOIN account ON account.id = login.account"
        " WHERE login.hash = ? AND login.expires_at > ? AND account.status != 'inactive'",
        door.hashed(secret),
        store.now(),
    )
    return Visit(door, secret, found[0] if found else None, is_new=False)


async def log_in(store: Store, user: int, door: Door = AUTHORIZE) -> str:
    """Remember that a user logged in; the cookie's new value."""
    secret = chance.token_urlsafe(32)

    def txn(conn: Connection) -> None:
        now = store.now()
        conn.execute("DELETE FROM login WHERE expires_at < ?", (now,))
        conn.execute(
            "INSERT INTO login (hash, account, expires_at) VALUES (?, ?, ?)",
            (door.hashed(secret), user, now + door.lifetime_seconds * 1_000_000),
        )

    await store.write(txn)
    return secret


async def log_out(store: Store, visited: Visit) -> None:
    hashed = visited.door.hashed(visited.secret)
    await store.write(lambda conn: conn.execute("DELETE FROM login WHERE hash = ?", (hashed,)))


def set_cookie(
    request: requests.Request,
    response: responses.Response,
    secret: str,
    door: Door = AUTHORIZE,
    *,
    path: str = "",
) -> None:
    response.set_cookie(
        door.name(request),
        secret,
        max_age=door.lifetime_seconds,
        path=path or door.path,
        httponly=True,
        samesite="strict" if door.strict else "lax",
        secure=request.url.scheme == "https",
    )
