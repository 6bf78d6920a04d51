"""Reads one page of events: its start position, a consistent snapshot, and the events as JSON.

Shared by the streams of users (events.py) and of administrators (events_admin.py).
"""

import json
from collections.abc import Callable
from sqlite3 import Row
from typing import Any, TypeVar

from cmsfs.service import problems
from cmsfs.service.access import actors, calls
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

T = TypeVar("T")


def run_in_snapshot(read: store.Read, run: Callable[[store.Read], T]) -> T:
    """Run in one snapshot, so that no event committed between two reads is skipped."""
    read("BEGIN")
    try:
        return run(read)
    finally:
        read("ROLLBACK")


def serialize(read: store.Read, rows: list[Row]) -> list[dict[str, Any]]:
    """Serialize events of either table."""
    numbers = json.dumps(sorted({row["created_by"] for row in rows}))
    found = read(
        "SELECT * FROM account WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers
    )
    users = {row["id"]: item_serializer.user_mini(row) for row in found}
    details = [json.loads(row["details"]) for row in rows]
    return [
        {
            "type": "event",
            "event_id": f"{row['id']:032x}",
            "event_type": row["type"],
            "created_at": item_serializer.to_timestamp(row["created_at"]),
            "recorded_at": item_serializer.to_timestamp(row["created_at"]),
            "created_by": users.get(row["created_by"]),
            "session_id": extra.pop(actors.SESSION, None),
            "source": json.loads(row["source"]),
            "additional_details": extra,
        }
        for row, extra in zip(rows, details, strict=True)
    ]


def position(call: calls.Call) -> int | None:
    """Return the requested stream position; None means now."""
    text = call.request.query_params.get("stream_position") or "0"
    if text == "now":
        return None
    number = calls.parse_id(text)
    if number is None:
        raise problems.invalid("stream_position", "must be 'now', 0 or a position that was answered")
    return number
