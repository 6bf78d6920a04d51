"""Refuses access to items until a user has agreed to the enterprise's terms of service.

As in the public API, a request that touches items gets 400 `terms_of_service_required` with the ids of the
terms and of the user's answer, so that the client can show the text and ask.  A person agrees through an
application or on the consent page.

Rule: administrators and app users are exempt; terms for external users are shown to clients, but not enforced
here.
"""

from sqlite3 import Connection, Row

from cmsfs.service import problems
from cmsfs.service.access import callers
from cmsfs.service.storage import app_users
from cmsfs.service.storage.store import Read

CODE = "terms_of_service_required"

# First path segments of operations on items.
_ITEMS = frozenset(
    {
        *("files", "folders", "web_links", "internal_files", "shared_items", "zip_downloads", "search"),
        *("comments", "tasks", "task_assignments", "collaborations", "folder_locks", "collections"),
        *("recent_items", "metadata_queries", "metadata_cascade_policies", "events", "webhooks"),
    }
)
_PENDING = """
  SELECT t.id, t.text, s.id AS status, account.login, account.role FROM terms_of_service AS t
    JOIN account ON account.id = ?1 LEFT JOIN terms_status AS s ON s.terms = t.id AND s.account = ?1
    WHERE t.enterprise = ?2 AND t.kind = 'managed' AND t.status = 'enabled'
      AND coalesce(s.is_accepted, 0) = 0
"""


def pending(read: Read, user: int, enterprise: int) -> Row | None:
    """Return the terms that a user has yet to agree to: `id`, `text`, and the `status` that declines them."""
    for row in read(_PENDING, user, enterprise):
        if row["role"] not in ("admin", "coadmin") and not app_users.is_app_user(row):
            return row
    return None


def check(read: Read, caller: callers.Caller, path: str) -> None:
    """Raise 400 for a request to an item while the user's terms are pending."""
    if caller.role != "user" or path.lstrip("/").partition("/")[0] not in _ITEMS:
        return
    row = pending(read, caller.id, caller.enterprise)
    if row is not None:
        status = None if row["status"] is None else int(row["status"])
        raise problems.Refused(
            400,
            CODE,
            "User must accept custom terms of service before action can be taken",
            context_info={"tos_id": int(row["id"]), "tos_user_status_id": status},
        )


def agree(conn: Connection, user: int, terms: int, *, now: int) -> None:
    conn.execute(
        "INSERT INTO terms_status (terms, account, is_accepted, created_at, modified_at)"
        " VALUES (?1, ?2, 1, ?3, ?3)"
        " ON CONFLICT (terms, account) DO UPDATE SET is_accepted = 1, modified_at = excluded.modified_at",
        (terms, user, now),
    )
