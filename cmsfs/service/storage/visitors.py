"""Visitors: whoever comes by a shared link and has no account.

All of them are one user, whose name stands beside what they change, in no enterprise and without a login; and
their tokens are of one application, which nobody knows a secret of.

Rule: that user owns nothing and has no root folder, so that a link's item is all there is.
"""

from sqlite3 import Connection

from cmsfs.runtime import chance

APP = "urn:cmsfs:visitors"
NAME = "Visitor by a shared link"
SCOPES = "base_explorer item_download item_upload"

# Nobody's application is called that, and no user of an enterprise has it.
_NOBODY = 0


def user(conn: Connection, *, now: int) -> int:
    """The number of their user, who is made for the first of them."""
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
