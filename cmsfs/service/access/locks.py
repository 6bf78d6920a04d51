"""File locks: only the owner of a lock may change the file until it is removed or expires.

A lock is a JSON object in the file's row.  It is set and taken away with the file's other properties
(`PUT /files/:id`); `calls.get_for_change` asks `check`.

Rule: a lock that has ended is no lock, whatever the row says.
"""

import json
from sqlite3 import Row
from typing import Any

from cmsfs.models.base import format_timestamp
from cmsfs.models.content import items
from cmsfs.runtime import chance
from cmsfs.service import problems


def find(row: Row, now: int) -> dict[str, Any] | None:
    """The lock that holds a file now."""
    if row["lock"] is None:
        return None
    lock: dict[str, Any] = json.loads(row["lock"])
    return None if lock["expires_at"] is not None and lock["expires_at"] <= now else lock


def check(row: Row, user: int, now: int) -> None:
    """403 if somebody else has locked the file."""
    lock = find(row, now)
    if lock is not None and lock["by"] != user:
        raise problems.Refused(403, "access_denied_item_locked", "The file is locked by somebody else.")


def check_download(row: Row, user: int, now: int) -> None:
    """403 if somebody else has locked the file against downloads too."""
    lock = find(row, now)
    if lock is not None and lock["by"] != user and lock["prevents_download"]:
        raise problems.Refused(403, "access_denied_item_locked", "The lock does not allow downloads.")


def column(wish: items.NewLock | None, *, by: int, now: int) -> str | None:
    """What a request's `lock` makes of the column."""
    if wish is None:
        return None
    ends = None
    if wish.expires_at is not None:
        ends = int(wish.expires_at.timestamp() * 1_000_000)
        if ends <= now:
            said = f"must be in the future, which {format_timestamp(wish.expires_at)} is not"
            raise problems.invalid("lock.expires_at", said)
    lock = {
        "id": str(chance.randbelow(10**12)),
        "by": by,
        "created_at": now,
        "expires_at": ends,
        "prevents_download": wish.is_download_prevented,
    }
    return json.dumps(lock)
