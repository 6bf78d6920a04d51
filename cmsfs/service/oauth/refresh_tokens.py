"""The refresh_token grant: exchanges a refresh token for a new token pair.

A refresh token is good for one use.  Whoever shows one that was used may have stolen it, or it was stolen
from them: nobody can tell, so the whole family ends and the user has to consent again.

Rule: the end of a family is committed before the refusal is raised.
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


async def refresh(ask: clients.Ask) -> dict[str, Any]:
    app = ask.authenticate()
    hashed = calls.hashed(ask.required("refresh_token"))

    def txn(conn: Connection) -> dict[str, Any] | None:
        now = ask.store.now()
        found = conn.execute(_FOUND, (hashed, app["client_id"])).fetchone()
        if found is None or found["expires_at"] <= now or found["status"] == "inactive":
            return None
        if found["used"]:
            access_tokens.end_family(conn, found["id"])
            return None
        return access_tokens.pair(conn, found["id"], now=now)

    made = await ask.store.write(txn)
    if made is None:
        raise problems.OAuthRefused("invalid_grant", "Refresh token has expired or was used already")
    return made
