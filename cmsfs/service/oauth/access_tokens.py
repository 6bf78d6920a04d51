"""Access tokens, and the token families that one consent creates.

The grants (credentials, codes.py, families.py, assertions.py, exchange.py) decide; here the rows are
written and the answer is made.  Revoking an access or a refresh token of a family ends the family; a
narrowed token ends alone, and whatever it was made of takes it along.

Rule: called inside the transaction in which the grant was judged, so that nothing is redeemed twice.
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

# Dead tokens and codes are remembered for a day: a bearer is told that a token expired, a thief is noticed.
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
    """Make an access token; the answer that hands it out.

    `source` is the row of the token that it is made of, which it does not outlive.
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
    made = conn.execute(
        "INSERT INTO family (app, account, scopes, expires_at) VALUES (?, ?, ?, ?) RETURNING id",
        (app, user, granted, now),
    )
    return int(made.fetchone()["id"])


def pair(conn: Connection, family: int, *, now: int) -> dict[str, Any]:
    """The next access token of a family with its next refresh token; the one before is used up."""
    row = conn.execute("SELECT * FROM family WHERE id = ?", (family,)).fetchone()
    made = access_token(conn, row["app"], row["account"], now=now, granted=row["scopes"], family=family)
    secret = chance.token_urlsafe(32)
    conn.execute("UPDATE refresh_token SET used = 1 WHERE family = ? AND used = 0", (family,))
    conn.execute("INSERT INTO refresh_token (hash, family) VALUES (?, ?)", (calls.hashed(secret), family))
    conn.execute("UPDATE family SET expires_at = ? WHERE id = ?", (now + REFRESH_LIFETIME, family))
    return made | {"refresh_token": secret}


def end_family(conn: Connection, family: int | None) -> None:
    """Make every token of a family worthless."""
    conn.execute("DELETE FROM family WHERE id = ?", (family,))


def revoke(conn: Connection, app: str, secret: str) -> None:
    """End an access or refresh token of the application; one that is unknown is ended already."""
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


def with_kind(made: dict[str, Any]) -> dict[str, Any]:
    """The answer of a token exchange, which says what kind of token it hands out."""
    return made | {"issued_token_type": tokens.ACCESS_TOKEN_TYPE}
