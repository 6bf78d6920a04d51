"""Authorization codes: issued by the authorize page, redeemed at the token endpoint.

A code is valid for 30 seconds and one use; redeeming it again revokes the tokens issued for it.  With PKCE
(S256) only the client that began the flow can redeem it; a wrong verifier uses the code up.

Rule: a code is sent to the redirect URI it was requested for and redeemed by the application that requested
it.
"""

import base64
import hashlib
import hmac
import re
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.oauth import access_tokens, clients

LIFETIME_SECONDS = 30

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)


def make(
    conn: Connection,
    app: str,
    user: int,
    *,
    redirect_uri: str,
    granted: str | None,
    challenge: str | None,
    now: int,
) -> str:
    """Create a code."""
    conn.execute("DELETE FROM code WHERE expires_at < ?", (now - access_tokens.DAY,))
    secret = chance.token_urlsafe(24)
    conn.execute(
        "INSERT INTO code (hash, app, account, redirect_uri, scopes, challenge, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            calls.hashed(secret),
            app,
            user,
            redirect_uri,
            granted,
            challenge,
            now + LIFETIME_SECONDS * access_tokens.SECOND,
        ),
    )
    return secret


async def redeem(token_request: clients.TokenRequest) -> dict[str, Any]:
    """Handle the authorization_code grant."""
    app = token_request.authenticate("authorization_code")
    hashed = calls.hashed(token_request.required("code"))

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = token_request.store.now()
        row = conn.execute(
            "SELECT code.*, account.status FROM code JOIN account ON account.id = code.account"
            " WHERE hash = ? AND app = ?",
            (hashed, app["client_id"]),
        ).fetchone()
        if row is None:
            return None
        if row["used"]:
            access_tokens.end_family(conn, row["family"])
            return None
        conn.execute("UPDATE code SET used = 1 WHERE hash = ?", (hashed,))
        if row["expires_at"] <= now or row["status"] == "inactive" or not _is_same_client(row, token_request):
            return None
        family = access_tokens.begin_family(conn, row["app"], row["account"], granted=row["scopes"], now=now)
        conn.execute("UPDATE code SET family = ? WHERE hash = ?", (family, hashed))
        return access_tokens.issue_pair(conn, family, now=now)

    made = await token_request.store.write(txn)
    if made is None:
        raise problems.OAuthRefused("invalid_grant", "The authorization code is invalid or has expired")
    return made


def _is_same_client(row: Row, token_request: clients.TokenRequest) -> bool:
    """Return whether the redeeming client is the one that requested the code."""
    # Clients of the public API omit the URI; if sent, it must be the one of the authorization request.
    if token_request.form.get("redirect_uri", row["redirect_uri"]) != row["redirect_uri"]:
        return False
    verifier = token_request.form.get("code_verifier")
    if row["challenge"] is None or verifier is None:
        # A verifier without a challenge: somebody removed the challenge from the authorization request.
        return row["challenge"] is None and verifier is None
    if not _VERIFIER.fullmatch(verifier):
        return False
    digest = hashlib.sha256(verifier.encode()).digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).decode().rstrip("="), row["challenge"])
