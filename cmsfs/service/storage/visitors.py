"""Visitors: people who use a shared link without an account.

They all share one user, whose name is shown for their changes; it belongs to no real enterprise and has no
login.  Their tokens belong to one application, whose secret nobody knows.

Rule: that user owns nothing and has no root folder, so that visitors can reach only the link's item.
"""

from sqlite3 import Connection

from cmsfs.runtime import chance

APP = "urn:cmsfs:visitors"
NAME = "Visitor by a shared link"
SCOPES = "base_explorer item_download item_upload"

# The id of a placeholder enterprise.
_NOBODY = 0


def user(conn: Connection, *, now: int) -> int:
    """The id of the visitors' user, which is created at first use."""
    found = conn.execute("SELECT service_user FROM app WHERE client_id = ?", (APP,)).fetchone()
    if found is not None:
        return int(found["service_user"])
    conn.execute(
        "INSERT INTO enterprise (id, name, created_at) VALUES (?, '', ?) ON CONFLICT DO NOTHING",
        (_NOBODY, now),
    )
    made = conn.execute(
        "INSERT INTO account (enterprise, name, role, space_amount, max_upload_size, created_at, modified_at)"
        " VALUES (?, ?, 'user', -1, ?, ?, ?) RETURNING id",
        (_NOBODY, NAME, 2**53, now, now),
    ).fetchone()
    conn.execute(
        "INSERT INTO app (client_id, secret_hash, name, enterprise, service_user, scopes, grants)"
        " VALUES (?, ?, ?, ?, ?, ?, '')",
        (APP, chance.token_hex(32), NAME, _NOBODY, made["id"], SCOPES),
    )
    return int(made["id"])
