"""Access tokens, and the token families that one consent creates.

The grants (credentials in tokens.py, codes.py, refresh_tokens.py, assertions.py, exchange.py) decide; this
module writes the rows and builds the response.  Revoking an access or refresh token of a family ends the
family; a downscoped token ends alone, and tokens end with the token they were made from.

Rule: call these in the transaction that validated the grant, so that nothing is redeemed twice.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.models.enterprise import tokens
from cmsfs.runtime import chance
from cmsfs.service.access import calls

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND

LIFETIME_SECONDS = 3600
REFRESH_LIFETIME = 60 * DAY

# Expired tokens and codes are kept for a day: to report them as expired, and to detect stolen ones.
_REMEMBER = DAY

_INSERT = """
  INSERT INTO token (hash, app, account, created_at, expires_at, scopes, bound, family, source, actor, link)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def access_token(
    conn: Connection,
    app: str,
    user: int,
    *,
    now: int,
    granted: str | None = None,
    family: int | None = None,
    bound: int | None = None,
    source: Row | None = None,
    actor: dict[str, str] | None = None,
    link: str | None = None,
) -> dict[str, Any]:
    """Create an access token; return the token response.

    `source` is the row of the token that this one is made from; the new one does not outlive it.
    """
    conn.execute("DELETE FROM token WHERE expires_at < ?", (now - _REMEMBER,))
    ends = now + LIFETIME_SECONDS * SECOND
    if source is not None:
        ends = min(ends, source["expires_at"])
    secret = chance.token_urlsafe(24)
    conn.execute(
        _INSERT,
        (
            calls.hashed(secret),
            app,
            user,
            now,
            ends,
            granted,
            bound,
            family,
            None if source is None else source["hash"],
            json.dumps(actor) if actor else None,
            link,
        ),
    )
    return {
        "access_token": secret,
        "expires_in": max(1, (ends - now) // SECOND),
        "restricted_to": [],
        "token_type": "bearer",
    }


def begin_family(conn: Connection, app: str, user: int, *, granted: str | None, now: int) -> int:
    conn.execute("DELETE FROM family WHERE expires_at < ?", (now,))
    response = conn.execute(
        "INSERT INTO family (app, account, scopes, expires_at) VALUES (?, ?, ?, ?) RETURNING id",
        (app, user, granted, now),
    )
    return int(response.fetchone()["id"])


def issue_pair(conn: Connection, family: int, *, now: int) -> dict[str, Any]:
    """Issue a family's next access token and refresh token; the previous refresh token is used up."""
    row = conn.execute("SELECT * FROM family WHERE id = ?", (family,)).fetchone()
    response = access_token(conn, row["app"], row["account"], now=now, granted=row["scopes"], family=family)
    secret = chance.token_urlsafe(32)
    conn.execute("UPDATE refresh_token SET used = 1 WHERE family = ? AND used = 0", (family,))
    conn.execute("INSERT INTO refresh_token (hash, family) VALUES (?, ?)", (calls.hashed(secret), family))
    conn.execute("UPDATE family SET expires_at = ? WHERE id = ?", (now + REFRESH_LIFETIME, family))
    return response | {"refresh_token": secret}


def end_family(conn: Connection, family: int | None) -> None:
    """Invalidate every token of a family."""
    conn.execute("DELETE FROM family WHERE id = ?", (family,))


def revoke(conn: Connection, app: str, secret: str) -> None:
    """Revoke an access or refresh token of the application; unknown tokens are ignored."""
    hashed = calls.hashed(secret)
    found = conn.execute(
        "SELECT family FROM token WHERE hash = ?1 AND app = ?2 UNION ALL"
        " SELECT family.id FROM refresh_token JOIN family ON family.id = refresh_token.family"
        " WHERE hash = ?1 AND app = ?2",
        (hashed, app),
    ).fetchone()
    if found is not None and found["family"] is not None:
        end_family(conn, found["family"])
    else:
        conn.execute("DELETE FROM token WHERE hash = ? AND app = ?", (hashed, app))


def with_token_type(response: dict[str, Any]) -> dict[str, Any]:
    """Add the issued token's type to the response of a token exchange."""
    return response | {"issued_token_type": tokens.ACCESS_TOKEN_TYPE}
