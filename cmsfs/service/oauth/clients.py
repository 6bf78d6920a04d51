"""Authenticates applications at the token endpoint: permitted grants, scopes and redirect URIs.

Credentials come in the form or in HTTP Basic.  Redirect URIs are compared as text, except that an application
may use any free port of a loopback address (RFC 8252, section 7.3).

Rule: an unknown application and a wrong secret give the same response in the same time.
"""

import base64
import binascii
import hmac
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any
from urllib.parse import unquote_plus

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cmsfs import errors
from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.storage.store import Store

# Grants of an application.  The code grant includes refresh tokens; all may downscope tokens.
GRANTS = ("authorization_code", "client_credentials", "jwt_bearer")

_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::\d{1,5})?(/[^#\\]*)?", re.ASCII)
_TEXT = re.compile(r"[\x21-\x7e]+")

_MIN_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A request to the token endpoint: its form, and what is needed to validate it."""

    store: Store
    form: Mapping[str, str]
    authorization: str  # the Authorization header
    audiences: frozenset[str]  # the URLs of this token endpoint
    who: str = ""  # the client's address
    host: str = ""  # the host that the request was sent to

    def required(self, name: str) -> str:
        value = self.form.get(name, "")
        if not value:
            raise problems.OAuthRefused("invalid_request", f"Parameter {name} is missing")
        return value

    def authenticate(self, grant: str | None = None) -> Row:
        """Return the authenticated application; it must be allowed to use the grant."""
        client_id, secret = self._credentials()
        found = self.store.read("SELECT * FROM app WHERE client_id = ?", client_id)
        expected = found[0]["secret_hash"] if found else calls.hashed(chance.token_hex(8))
        if not hmac.compare_digest(expected, calls.hashed(secret)) or not found:
            # The right secret is never throttled: it cannot be guessed, and guesses must not lock the
            # application out.
            wait = self.store.attempts.take(self.who, f"app:{client_id}") if found else 0
            if wait:
                message = "Too many wrong secrets; try again later."
                headers = {"Retry-After": str(math.ceil(wait))}
                raise problems.OAuthRefused("rate_limit_exceeded", message, status=429, headers=headers)
            raise problems.OAuthRefused("invalid_client", "The client credentials are invalid")
        if grant is not None and grant not in found[0]["grants"].split():
            message = "The grant type is unauthorized for this client_id"
            raise problems.OAuthRefused("unauthorized_client", message)
        return found[0]

    @property
    def client_id(self) -> str:
        """Return the client id of the request; empty if there is none or it is malformed."""
        try:
            return self._credentials()[0]
        except problems.OAuthRefused:
            return ""

    def has_credentials(self) -> bool:
        return "client_secret" in self.form or self.authorization.lower().startswith("basic ")

    def _credentials(self) -> tuple[str, str]:
        scheme, _, encoded = self.authorization.partition(" ")
        if scheme.lower() != "basic":
            return self.form.get("client_id", ""), self.form.get("client_secret", "")
        try:
            text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
        except (ValueError, binascii.Error):
            raise problems.OAuthRefused("invalid_client", "The client credentials are invalid") from None
        client_id, _, secret = text.partition(":")
        return unquote_plus(client_id), unquote_plus(secret)


def add(
    conn: Connection,
    client_id: str,
    secret: str,
    *,
    name: str,
    enterprise: int,
    service_user: int,
    scopes: str = "root_readwrite",
    grants: str = "client_credentials",
    redirect_uris: tuple[str, ...] = (),
) -> None:
    """Register an application."""
    columns: dict[str, Any] = {
        "client_id": client_id,
        "secret_hash": calls.hashed(secret),
        "name": name,
        "enterprise": enterprise,
        "service_user": service_user,
        "scopes": scopes,
        "grants": grants,
        "redirect_uris": json.dumps(redirect_uris),
    }
    marks = ", ".join(f":{column}" for column in columns)
    conn.execute(f"INSERT INTO app ({', '.join(columns)}) VALUES ({marks})", columns)


def add_key(conn: Connection, client_id: str, kid: str, pem: str) -> None:
    """Add a public key of an application.  Raises `UserError` unless it is a strong enough RSA key."""
    try:
        key = serialization.load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise errors.UserError("The public key is not in PEM format.") from None
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < _MIN_KEY_BITS:
        raise errors.UserError(f"The public key must be RSA with {_MIN_KEY_BITS} bits or more.")
    conn.execute("INSERT INTO app_key (app, kid, pem) VALUES (?, ?, ?)", (client_id, kid, pem))


def set_signature_keys(conn: Connection, client_id: str, *, main: str, secondary: str) -> None:
    """Set the keys that sign an application's webhook deliveries."""
    values = (client_id, main, secondary)
    conn.execute(
        "INSERT INTO signature_key (app, main, secondary) VALUES (?, ?, ?)"
        " ON CONFLICT (app) DO UPDATE SET main = excluded.main, secondary = excluded.secondary",
        values,
    )


def renew_signature_key(conn: Connection, client_id: str, column: str) -> dict[str, str]:
    """Replace the `main` or `secondary` key, or create both if there are none; return the new keys."""
    found = conn.execute("SELECT * FROM signature_key WHERE app = ?", (client_id,)).fetchone()
    made = {column: chance.token_urlsafe(32)}
    if found is None:
        made = {name: made.get(name) or chance.token_urlsafe(32) for name in ("main", "secondary")}
    whole = ({} if found is None else {name: found[name] for name in ("main", "secondary")}) | made
    set_signature_keys(conn, client_id, **whole)
    return made


def find_redirect(app: Row, asked: str | None) -> str | None:
    """Return the redirect URI to use: the requested one if registered; without a request, the only one."""
    registered: list[str] = json.loads(app["redirect_uris"])
    if asked is None:
        return registered[0] if len(registered) == 1 else None
    return asked if any(_matches(asked, one) for one in registered) else None


def _matches(asked: str, registered: str) -> bool:
    if not _TEXT.fullmatch(asked):
        return False
    ours, theirs = _LOOPBACK.fullmatch(registered), _LOOPBACK.fullmatch(asked)
    if ours is not None and theirs is not None:
        return (ours[1], ours[2] or "/") == (theirs[1], theirs[2] or "/")
    return asked == registered
