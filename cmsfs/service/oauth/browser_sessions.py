"""Browser sessions: the login cookie, and CSRF tokens of forms.

The cookie is random; before the log-in it only ties the form to the browser, and the log-in replaces it, so
that nobody can plant one (session fixation).  A form carries a value derived from the cookie, which no other
site can know.

There are three separate logins: the authorize page, the administrators' pages and the users' pages.  A login
to one is not valid for the others.

Browsers send a cookie to every port of a host, and so to other users of a shared machine who make the browser
connect to a port of theirs.  The pages' cookies therefore have a path that nobody can guess, and are accepted
only there.

Rule: only the hash of a cookie is stored, and it expires.
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
class LoginKind:
    """A kind of login: its cookie, the path of the cookie, and its lifetime.

    Browsers do not send `strict` cookies when another site links here.
    """

    cookie: str
    lifetime_seconds: int
    path: str = "/"
    strict: bool = False

    def name(self, request: requests.Request) -> str:
        """Return the cookie's name; over TLS its prefix keeps plain HTTP and other hosts from setting it."""
        if request.url.scheme != "https":
            return self.cookie
        return f"{'__Host-' if self.path == '/' else '__Secure-'}{self.cookie}"

    def hashed(self, secret: str) -> str:
        return calls.hashed(f"{self.cookie}:{secret}")


# Not strict, since an application's page links here.
AUTHORIZE = LoginKind("cmsfs_login", 900)
ADMIN = LoginKind("cmsfs_admin", 4 * 3600, path="/admin", strict=True)
WEB = LoginKind("cmsfs_web", 12 * 3600, path="/web", strict=True)


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser, and its logged-in user, if any."""

    login_kind: LoginKind
    secret: str
    user: Row | None
    is_new: bool

    @property
    def path_secret(self) -> str:
        """Return a secret path segment that only this browser knows."""
        return hmac.new(self.secret.encode(), b"place", hashlib.sha256).hexdigest()[:32]

    @property
    def csrf_token(self) -> str:
        """Return the CSRF token that forms carry."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()

    def accepts_form(self, form: dict[str, str]) -> bool:
        """Return whether a form carries this browser's CSRF token."""
        given = form.get(FIELD, "").encode("utf-8", "replace")
        return not self.is_new and hmac.compare_digest(given, self.csrf_token.encode())


def visit(store: Store, request: requests.Request, login_kind: LoginKind = AUTHORIZE) -> Visit:
    """Return the browser that makes the request, with its user if logged in."""
    secret = request.cookies.get(login_kind.name(request), "")
    if not secret or len(secret) > _MAX_COOKIE:
        return Visit(login_kind, chance.token_urlsafe(32), None, is_new=True)
    found = store.read(
        "SELECT account.* FROM login JOIN account ON account.id = login.account"
        " WHERE login.hash = ? AND login.expires_at > ? AND account.status != 'inactive'",
        login_kind.hashed(secret),
        store.now(),
    )
    return Visit(login_kind, secret, found[0] if found else None, is_new=False)


async def log_in(store: Store, user: int, login_kind: LoginKind = AUTHORIZE) -> str:
    """Store a login; return the cookie's new value."""
    secret = chance.token_urlsafe(32)

    def txn(conn: Connection) -> None:
        now = store.now()
        conn.execute("DELETE FROM login WHERE expires_at < ?", (now,))
        conn.execute(
            "INSERT INTO login (hash, account, expires_at) VALUES (?, ?, ?)",
            (login_kind.hashed(secret), user, now + login_kind.lifetime_seconds * 1_000_000),
        )

    await store.write(txn)
    return secret


async def log_out(store: Store, visited: Visit) -> None:
    hashed = visited.login_kind.hashed(visited.secret)
    await store.write(lambda conn: conn.execute("DELETE FROM login WHERE hash = ?", (hashed,)))


def set_cookie(
    request: requests.Request,
    response: responses.Response,
    secret: str,
    login_kind: LoginKind = AUTHORIZE,
    *,
    path: str = "",
) -> None:
    response.set_cookie(
        login_kind.name(request),
        secret,
        max_age=login_kind.lifetime_seconds,
        path=path or login_kind.path,
        httponly=True,
        samesite="strict" if login_kind.strict else "lax",
        secure=request.url.scheme == "https",
    )
