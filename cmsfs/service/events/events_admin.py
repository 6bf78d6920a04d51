"""The enterprise event streams for administrators, kept for a year.

`admin_logs` is queried by time range; `admin_logs_streaming` is followed from a position and goes back two
weeks.  They have event types of their own and a different source format: ids and names, not the whole item.

Rule: administrators only, with a token that manages the enterprise's properties.
"""

import json
from sqlite3 import Connection, Row
from typing import Any, Final

import pydantic_core
from starlette import responses

from cmsfs.models import base
from cmsfs.models.content import events
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import operations, paging
from cmsfs.service.events import events_page
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus

LOGS: Final = "admin_logs"
STREAMING: Final = "admin_logs_streaming"
STREAMS: Final = (LOGS, STREAMING)

MAX_LIMIT = 500
RETENTION = 365 * 86_400 * 1_000_000
STREAMING_SPAN = 14 * 86_400 * 1_000_000

_SCOPE = "manage_enterprise_properties"
_TOP = "SELECT coalesce(max(id), 2000000) AS top FROM admin_event"

# Enterprise event types of user event types; those missing here have the same name in both.
ADMIN_EVENT_TYPES: Final = {
    events.UPLOAD: "UPLOAD",
    events.COPY: "COPY",
    events.MOVE: "MOVE",
    events.RENAME: "RENAME",
    events.MODIFY: "EDIT",
    events.TRASH: "DELETE",
    events.RESTORE: "UNDELETE",
    events.PROMOTE: "FILE_VERSION_RESTORE",
    events.LOCK: "LOCK",
    events.UNLOCK: "UNLOCK",
    events.SHARE: "SHARE",
    events.UNSHARE: "UNSHARE",
    events.COLLAB_INVITE: "COLLABORATION_INVITE",
    events.COLLAB_ADD: "COLLABORATION_ACCEPT",
    events.COLLAB_REMOVE: "COLLABORATION_REMOVE",
    events.COLLAB_ROLE: "COLLABORATION_ROLE_CHANGE",
}


def record_item(
    conn: Connection, row: Row, event_type: str, *, by: int, now: int, details: str = "{}"
) -> None:
    """Record an item event in the enterprise of the item's owner."""
    owner = conn.execute("SELECT * FROM account WHERE id = ?", (row["owner"],)).fetchone()
    parent = conn.execute("SELECT * FROM item WHERE id = ?", (row["parent"],)).fetchone()
    source = {
        "item_type": KIND_NAMES[ItemKind(row["kind"])],
        "item_id": "0" if row["status"] == ItemStatus.ROOT else str(row["id"]),
        "item_name": row["name"],
        "parent": None if parent is None else item_serializer.folder_mini(parent),
        "owned_by": item_serializer.user_mini(owner),
    }
    if event_type == events.COLLAB_REMOVE and json.loads(details).get("reason") == "expired":
        event_type = "COLLABORATION_EXPIRATION"
    record(
        conn,
        owner["enterprise"],
        ADMIN_EVENT_TYPES.get(event_type, event_type),
        source,
        by=by,
        now=now,
        details=details,
    )


def record(
    conn: Connection,
    enterprise: int,
    event_type: str,
    source: dict[str, Any],
    *,
    by: int,
    now: int,
    details: str = "{}",
) -> None:
    """Record an event of an enterprise."""
    conn.execute(
        "INSERT INTO admin_event (enterprise, type, created_at, created_by, source, details)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (enterprise, event_type, now, by, pydantic_core.to_json(source).decode(), details),
    )
    expire_oldest(conn, "admin_event", before=now - RETENTION)


def expire_oldest(conn: Connection, table: str, *, before: int) -> None:
    """Delete a few of the oldest events; called for each new one."""
    oldest = conn.execute(f"SELECT id, created_at FROM {table} ORDER BY id LIMIT 1").fetchone()
    if oldest["created_at"] < before:
        conn.execute(f"DELETE FROM {table} WHERE id < ? AND created_at < ?", (oldest["id"] + 10, before))


async def get(call: calls.Call, stream: str) -> responses.Response:
    """Return the page of a stream after the requested position."""
    calls.require_admin(call.caller)
    if _SCOPE not in call.caller.scopes:
        raise problems.Refused(403, "insufficient_scope", f"These streams need the scope {_SCOPE}.")
    params = call.request.query_params
    after = events_page.position(call)
    limit = min(paging.read_number(params, "limit", 100), MAX_LIMIT)
    wanted = [one.strip() for one in params.get("event_type", "").split(",") if one.strip()]
    first, last = 0, 2**62
    if stream == LOGS:
        first = _read_time(call, "created_after", first)
        last = _read_time(call, "created_before", last)
    else:
        first = call.store.now() - STREAMING_SPAN

    def run(read: store.Read) -> dict[str, Any]:
        top = read(_TOP)[0]["top"]
        start = top if after is None else min(after, top)
        rows = read(
            "SELECT * FROM admin_event WHERE enterprise = ? AND id > ? AND id <= ? AND created_at >= ?"
            " AND created_at <= ? AND (? OR type IN (SELECT value FROM json_each(?))) ORDER BY id LIMIT ?",
            call.caller.enterprise,
            start,
            top,
            first,
            last,
            not wanted,
            json.dumps(wanted),
            limit,
        )
        end = top
        if len(rows) == limit:
            end = rows[-1]["id"] if rows else start
        entries = events_page.serialize(read, rows)
        return {"chunk_size": len(entries), "next_stream_position": str(end), "entries": entries}

    return calls.answer(await call.store.query(lambda read: events_page.run_in_snapshot(read, run)))


def _read_time(call: calls.Call, name: str, default: int) -> int:
    text = call.request.query_params.get(name)
    if not text:
        return default
    try:
        return item_serializer.micros(base.parse_timestamp(text))
    except ValueError as error:
        raise problems.invalid(name, str(error)) from None


PARAMETERS = (
    operations.Parameter(
        "event_type", "Of the administrators' streams: these words.", operations.FIELDS.schema
    ),
    operations.Parameter("created_after", f"Of `{LOGS}`: an RFC 3339 date-time."),
    operations.Parameter("created_before", f"Of `{LOGS}`: an RFC 3339 date-time."),
)
