"""The user event stream: records one event per change, keeps events for three weeks, serves the long poll.

`record` is called in the transaction of the change by the code that changes items (items.py, files.py), so a
change and its event are committed together.  Because the item keeps changing, each event stores the item as
it was after the event: one row for each user who sees it, with the parent folders visible to that user.
Administrator streams are in events_admin.py, waiting clients in event_watch.py.

Rule: positions grow in commit order; ids are never reused.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection, Row
from typing import Any

import pydantic_core
import trio
from starlette import requests, responses

from cmsfs.models import wire_names
from cmsfs.models.content import events
from cmsfs.service import problems
from cmsfs.service.access import access_rights, actors, calls, group_rights
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import event_watch, events_admin, events_page, webhook_triggers
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

DEFAULT_LIMIT = 100
MAX_LIMIT = 500

RETENTION = 21 * 86_400 * 1_000_000

# A poll is answered after this time even without events; clients give up on a silent one after 610 seconds.
HOLD_SECONDS = 300
RETRY_TIMEOUT = 610

_STREAMS = ("all", "changes", "sync", *events_admin.STREAMS)
_EXPIRED = "SELECT * FROM collaboration WHERE expires_at <= ?"


def record(
    conn: Connection,
    row: Row,
    event_type: str,
    *,
    by: int,
    now: int,
    before: Row | None = None,
    details: Mapping[str, Any] | None = None,
    besides: Sequence[int] = (),
) -> None:
    """Record an event for everybody who sees the item; `row` is its current state.

    `before` is the row before the change: users who saw the item there and do not see it now get the event
    without a parent.  `besides` are further users who get it.
    """
    read = store.reader(conn)
    recipients = [one.id for one in access_rights.users_who_see(read, row)]
    if before is not None and before["path"] != row["path"]:
        recipients += [one.id for one in access_rights.users_who_see(read, before)]
    details_json = record_for_users(
        conn, row, event_type, [*recipients, *besides], by=by, now=now, details=details
    )
    trigger = webhook_triggers.trigger_of_event(event_type, row, details or {})
    if trigger is not None:
        webhook_triggers.enqueue(conn, trigger, row, by=by, now=now, before=before, details=details)
    events_admin.record_item(conn, row, event_type, by=by, now=now, details=details_json)
    events_admin.expire_oldest(conn, "event", before=now - RETENTION)


def record_for_users(
    conn: Connection,
    row: Row,
    event_type: str,
    users: Iterable[int],
    *,
    by: int,
    now: int,
    details: Mapping[str, Any] | None = None,
) -> str:
    """Record an event for these users only; return its details as JSON."""
    read = store.reader(conn)
    details_json = pydantic_core.to_json({**(details or {}), **actors.for_event()}).decode()
    for number in dict.fromkeys(users):
        source = pydantic_core.to_json(_source(read, row, access_rights.NotifiedUser(number))).decode()
        conn.execute(
            "INSERT INTO event (account, type, created_at, created_by, source, details)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (number, event_type, now, by, source, details_json),
        )
    return details_json


def _source(read: store.Read, row: Row, viewer: access_rights.NotifiedUser) -> dict[str, Any]:
    """Return the item as the viewer sees it; without rights, only its name and no parent."""
    view = access_rights.View(read, viewer)
    if view.rights(row):
        return item_serializer.ItemSerializer(read, caller=viewer, view=view).item(row)
    etag = str(row["etag"])
    return {
        "type": KIND_NAMES[ItemKind(row["kind"])],
        "id": str(row["id"]),
        "sequence_id": etag,
        "etag": etag,
        "name": row["name"],
        "parent": None,
        "path_collection": {"total_count": 0, "entries": []},
    }


async def get(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    stream = params.get("stream_type") or "all"
    if stream not in _STREAMS:
        raise problems.invalid("stream_type", f"must be one of {', '.join(_STREAMS)}")
    if stream in events_admin.STREAMS:
        return await events_admin.get(call, stream)
    await expire_collaborations(call.store, call.store.now())
    limit = min(paging.read_number(params, "limit", DEFAULT_LIMIT), MAX_LIMIT)
    after = events_page.position(call)
    if after is not None and _is_undone(call, after):
        message = "is from before this service was restored from a backup; begin with 'now'"
        raise problems.invalid("stream_position", message)

    def run(read: store.Read) -> dict[str, Any]:
        # The answer covers all events up to here, of this user and stream or not.
        top = read(event_watch.LAST_EVENT)[0]["top"]
        start = top if after is None else min(after, top)
        wanted = sorted(events.TREE) if stream == "changes" else []
        rows = []
        if stream != "sync":  # no item is ever marked for sync here
            rows = read(
                "SELECT * FROM event WHERE account = ? AND id > ? AND id <= ?"
                " AND (? OR type IN (SELECT value FROM json_each(?))) ORDER BY id LIMIT ?",
                call.caller.id,
                start,
                top,
                stream == "all",
                json.dumps(wanted),
                limit,
            )
        end = top
        if len(rows) == limit:
            end = rows[-1]["id"] if rows else start
        entries = events_page.serialize(read, rows)
        return {"chunk_size": len(entries), "next_stream_position": end, "entries": entries}

    return calls.answer(await call.store.query(lambda read: events_page.run_in_snapshot(read, run)))


def _is_undone(call: calls.Call, position: int) -> bool:
    """Whether events up to this position may have been undone when a backup was restored (renumber.py)."""
    return 0 < position < call.store.first_position


async def expire_collaborations(opened: store.Store, now: int) -> None:
    """End expired collaborations, so that the streams report it."""
    if opened.read(_EXPIRED, now):
        await opened.write(lambda conn: _end_expired(conn, now))


def _end_expired(conn: Connection, now: int) -> None:
    for one in conn.execute(_EXPIRED, (now,)).fetchall():
        row = conn.execute("SELECT * FROM item WHERE id = ?", (one["item"],)).fetchone()
        conn.execute("DELETE FROM collaboration WHERE id = ?", (one["id"],))
        besides = group_rights.members(store.reader(conn), one["user_group"])
        besides += [] if one["account"] is None or one["status"] != "accepted" else [one["account"]]
        details = {"collab_id": str(one["id"]), "reason": "expired"}
        by = one["created_by"]
        record(conn, row, events.COLLAB_REMOVE, by=by, now=now, details=details, besides=besides)


async def realtime(call: calls.Call) -> responses.Response:
    url = call.request.url
    server = {
        "type": "realtime_server",
        "url": f"{url.scheme}://{url.netloc}/2.0/events/wait",
        "ttl": "10",
        "max_retries": "10",
        "retry_timeout": RETRY_TIMEOUT,
    }
    return calls.answer({"chunk_size": 1, "entries": [server]})


async def wait(call: calls.Call) -> responses.Response:
    after = events_page.position(call) if "stream_position" in call.request.query_params else None
    if after is None:
        after = call.store.read(event_watch.LAST_EVENT)[0]["top"]
    if _is_undone(call, after):
        return calls.answer({"message": events.NEW_CHANGE})  # `GET /events` tells what has happened
    message = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_disconnect, call.request, nursery.cancel_scope)
        message = await _wait_or_reconnect(call, after)
        nursery.cancel_scope.cancel()
    if message is None:
        raise requests.ClientDisconnect
    return calls.answer({"message": message})


async def _wait_or_reconnect(call: calls.Call, after: int) -> str:
    watch: event_watch.EventWatch = call.request.app.watch
    with trio.move_on_after(HOLD_SECONDS):
        await watch.wait(call.caller.id, after, actors.session_of(call.request))
        return events.NEW_CHANGE
    return events.RECONNECT


async def _cancel_on_disconnect(request: requests.Request, scope: trio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


_POSITION = operations.Parameter("stream_position", "`0`, `now`, or a position that was answered.")

routes = [
    Operation(
        "GET /events",
        get,
        "List events",
        events.EventPage,
        query=[
            operations.choice("stream_type", "Which events.", *_STREAMS),
            _POSITION,
            *events_admin.PARAMETERS,
            operations.Parameter("limit", f"How many at most, up to {MAX_LIMIT}.", operations.OFFSET.schema),
        ],
    ),
    Operation("OPTIONS /events", realtime, "Ask where to wait for events", events.RealtimeServers),
    Operation(
        "GET /events/wait",
        wait,
        "Wait for an event",
        events.RealtimeNotice,
        query=[_POSITION],
        headers=[operations.header(wire_names.SESSION_HEADER, "Not to be told of what this session did.")],
        more="Long poll: answered as soon as there is something new for this user.",
    ),
]
