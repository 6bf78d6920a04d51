"""The refresh_token grant: exchanges a refresh token for a new token pair.

A refresh token is valid for one use.  A used one may be presented by a thief or by its victim; since nobody
can tell, the whole family ends and the user has to consent again.

Rule: the end of a family is committed before the error is raised.
"""

from sqlite3 import Connection
from typing import Any

from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.oauth import access_tokens, clients

_FOUND = """
  SELECT refresh_token.used, family.*, account.status FROM refresh_token
  JOIN family ON family.id = refresh_token.family JOIN account ON account.id = family.account
  WHERE refresh_token.hash = ? AND family.app = ?
"""


async def refresh(token_request: clients.TokenRequest) -> dict[str, Any]:
    app = token_request.authenticate()
    hashed = calls.hashed(token_request.required("refresh_token"))

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = token_request.store.now()
        found = conn.execute(_FOUND, (hashed, app["client_id"])).fetchone()
        if found is None or found["expires_at"] <= now or found["status"] == "inactive":
            return None
        if found["used"]:
            access_tokens.end_family(conn, found["id"])
            return None
        return access_tokens.issue_pair(conn, found["id"], now=now)

    made = await token_request.store.write(txn)
    if made is None:
        raise problems.OAuthRefused("invalid_grant", "Refresh token has expired or was used already")
    return made
