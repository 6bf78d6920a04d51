"""The page of the enterprise's events: what was done, by whom and when, with filters."""

import json
from datetime import UTC, datetime, timedelta
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.service.access import calls
from cmsfs.service.admin import protections
from cmsfs.service.admin.desk import Desk
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

PAGE = 50

_LATEST = 2**62
_EVENTS = """
  SELECT event.*, account.name AS maker FROM admin_event AS event
    LEFT JOIN account ON account.id = event.created_by
  WHERE event.enterprise = ?1 AND event.id < ?2 AND event.created_at >= ?3 AND event.created_at < ?4
    AND (?5 = '' OR event.type = ?5)
    AND (?6 = '' OR event.created_by = (SELECT id FROM account WHERE lower(login) = lower(?6)))
  ORDER BY event.id DESC LIMIT ?7
"""


async def show(desk: Desk) -> responses.Response:
    params = desk.request.query_params
    wanted = {name: params.get(name, "").strip()[:100] for name in ("kind", "by", "first", "last")}
    before = calls.parse_id(desk.marker) or _LATEST
    entries, marker = await desk.store.query(
        lambda read: latest(read, desk.enterprise, before=before, limit=PAGE, **wanted)
    )
    return desk.page("events.html", entries=entries, next=marker, wanted=wanted)


def latest(
    read: store.Read,
    enterprise: int,
    *,
    limit: int,
    before: int = _LATEST,
    kind: str = "",
    by: str = "",
    first: str = "",
    last: str = "",
) -> tuple[list[dict[str, str]], str]:
    """Return the latest events and the marker of those before them.

    `kind` is the type of the events, `by` a login, `first` and `last` are days.  What is no day is ignored.
    """
    rows = read(
        _EVENTS,
        enterprise,
        before,
        _begin_of(first) or 0,
        _begin_of(last, days=1) or _LATEST,
        kind.upper().replace(" ", "_"),
        by,
        limit + 1,
    )
    marker = str(rows[limit - 1]["id"]) if len(rows) > limit else ""
    return [_entry(row) for row in rows[:limit]], marker


def _begin_of(day: str, *, days: int = 0) -> int | None:
    """Return the begin of a day, or of one `days` later, in microseconds; None if it is no day."""
    if not protections.DAY.fullmatch(day):
        return None
    try:
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(days=days)
    except (ValueError, OverflowError):
        return None
    return int(begin.timestamp()) * 1_000_000


def _entry(row: Row) -> dict[str, str]:
    source: Any = json.loads(row["source"])
    return {
        "at": format_time(row["created_at"]),
        "type": row["type"].lower().replace("_", " "),
        "what": str(source.get("item_name") or source.get("name") or ""),
        "by": row["maker"] or "",
    }


def format_time(micros: int) -> str:
    """Format a time for people."""
    return item_serializer.to_timestamp(micros)[:16].replace("T", " ") + " UTC"
