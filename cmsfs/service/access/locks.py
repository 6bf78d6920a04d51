"""File locks: only the owner of a lock may change the file until it is removed or expires.

A lock is a JSON object in the file's row.  It is set and removed with the file's other properties
(`PUT /files/:id`); `calls.get_for_change` calls `check`.

Rule: an expired lock is no lock, whatever the row holds.
"""

import json
from sqlite3 import Row
from typing import Any

from cmsfs.models.base import format_timestamp
from cmsfs.models.content import items
from cmsfs.runtime import chance
from cmsfs.service import problems


def find(row: Row, now: int) -> dict[str, Any] | None:
    """Return the lock in force on a file, or None."""
    if row["lock"] is None:
        return None
    lock: dict[str, Any] = json.loads(row["lock"])
    return None if lock["expires_at"] is not None and lock["expires_at"] <= now else lock


def check(row: Row, user: int, now: int) -> None:
    """Raise 403 if somebody else has locked the file."""
    lock = find(row, now)
    if lock is not None and lock["by"] != user:
        raise problems.Refused(403, "access_denied_item_locked", "The file is locked by somebody else.")


def check_download(row: Row, user: int, now: int) -> None:
    """Raise 403 if somebody else has locked the file against downloads."""
    lock = find(row, now)
    if lock is not None and lock["by"] != user and lock["prevents_download"]:
        raise problems.Refused(403, "access_denied_item_locked", "The lock does not allow downloads.")


def column(wish: items.NewLock | None, *, by: int, now: int) -> str | None:
    """Return the column's value for a request's `lock`."""
    if wish is None:
        return None
    ends = None
    if wish.expires_at is not None:
        ends = int(wish.expires_at.timestamp() * 1_000_000)
        if ends <= now:
            message = f"must be in the future, which {format_timestamp(wish.expires_at)} is not"
            raise problems.invalid("lock.expires_at", message)
    lock = {
        "id": str(chance.randbelow(10**12)),
        "by": by,
        "created_at": now,
        "expires_at": ends,
        "prevents_download": wish.is_download_prevented,
    }
    return json.dumps(lock)
