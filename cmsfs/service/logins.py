"""People in browsers: the cookie that says who logged in, and the proof that a form is ours.

The cookie is random; before the log-in it only ties the form to the browser, at the log-in it is replaced,
so that nobody can plant one.  A form carries a value made of the cookie, which no other site can know.

Rule: of a cookie only the hash is stored, and it counts for 15 minutes.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from sqlite3 import Connection, Row

from starlette import requests, responses

from cmsfs.service import access
from cmsfs.service.store import Store

COOKIE = "cmsfs_login"
FIELD = "form_proof"
LIFETIME_SECONDS = 900

_MAX_COOKIE = 100


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser, and the user who logged in there, if anybody did."""

    secret: str
    user: Row | None
    is_new: bool

    @property
    def proof(self) -> str:
        """What a form has to carry."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()

    def owns(self, form: dict[str, str]) -> bool:
        """Whether a form was made for this browser."""
        given = form.get(FIELD, "").encode("utf-8", "replace")
        return not self.is_new and hmac.compare_digest(given, self.proof.encode())


def visit(store: Store, request: requests.Request) -> Visit:
    """Who looks at the page."""
    secret = request.cookies.get(COOKIE, "")
    if not secret or len(secret) > _MAX_COOKIE:
        return Visit(secrets.token_urlsafe(32), None, is_new=True)
    found = store.read(
        "SELECT user.* FROM login JOIN user ON user.id = login.user"
        " WHERE login.hash = ? AND login.expires_at > ? AND user.status != 'inactive'",
        *(access.hashed(secret), store.now()),
    )
    return Visit(secret, found[0] if found else None, is_new=False)


async def log_in(store: Store, user: int) -> str:
    """Remember that a user logged in; the cookie's new value."""
    secret = secrets.token_urlsafe(32)

    def txn(conn: Connection) -> None:
        now = store.now()
        conn.execute("DELETE FROM login WHERE expires_at < ?", (now,))
        conn.execute(
            "INSERT INTO login (hash, user, expires_at) VALUES (?, ?, ?)",
            (access.hashed(secret), user, now + LIFETIME_SECONDS * 1_000_000),
        )

    await store.write(txn)
    return secret


async def log_out(store: Store, visited: Visit) -> None:
    hashed = access.hashed(visited.secret)
    await store.write(lambda conn: conn.execute("DELETE FROM login WHERE hash = ?", (hashed,)))


def set_cookie(request: requests.Request, response: responses.Response, secret: str) -> None:
    response.set_cookie(
        *(COOKIE, secret),
        max_age=LIFETIME_SECONDS,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
