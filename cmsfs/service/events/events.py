"""The user event stream: records one event per change, keeps three weeks, serves the long poll.

`record` is called inside the transaction of the change by what changes items (items.py, files.py), so that
there is no change without its event and no event without its change.  The source is stored as the item was
after the event, since the item goes on changing, once for each who sees it, with the folders above that they
see.  The streams of administrators are in events_admin.py, those who wait in event_watch.py.

Rule: positions grow in the order of the commits; the numbers are never used again.
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

# A poll is answered after so long even if nothing happened; clients give a silent one up after 610 seconds.
HOLD_SECONDS = 300
RETRY_TIMEOUT = 610

_STREAMS = ("all", "changes", "sync", *events_admin.STREAMS)
_EXPIRED = "SELECT * FROM collaboration WHERE expires_at <= ?"


def record(
    conn: Connection,
    row: Row,
    word: str,
    *,
    by: int,
    now: int,
    before: Row | None = None,
    details: Mapping[str, Any] | None = None,
    besides: Sequence[int] = (),
) -> None:
    """An event in the stream of everybody who sees the item, which is the row as it is now.

    `before` is the row before a change: who saw the item there and does not here is told that it has no
    place any more.  `besides` are further users who are told so.
    """
    read = store.reader(conn)
    told = [one.id for one in access_rights.seers(read, row)]
    if before is not None and before["path"] != row["path"]:
        told += [one.id for one in access_rights.seers(read, before)]
    said = tell(conn, row, word, [*told, *besides], by=by, now=now, details=details)
    trigger = webhook_triggers.of_event(word, row, details or {})
    if trigger is not None:
        webhook_triggers.enqueue(conn, trigger, row, by=by, now=now, before=before, details=details)
    events_admin.record_item(conn, row, word, by=by, now=now, details=said)
    events_admin.expire_oldest(conn, "event", before=now - RETENTION)


def tell(
    conn: Connection,
    row: Row,
    word: str,
    users: Iterable[int],
    *,
    by: int,
    now: int,
    details: Mapping[str, Any] | None = None,
) -> str:
    """An event in the streams of these users and in no other; what it says besides, as JSON."""
    read = store.reader(conn)
    said = pydantic_core.to_json({**(details or {}), **actors.for_event()}).decode()
    for number in dict.fromkeys(users):
        source = pydantic_core.to_json(_source(read, row, access_rights.NotifiedUser(number))).decode()
        conn.execute(
            "INSERT INTO event (account, type, created_at, created_by, source, details)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (number, word, now, by, source, said),
        )
    return said


def _source(read: store.Read, row: Row, viewer: access_rights.NotifiedUser) -> dict[str, Any]:
    """The item as somebody sees it; to who does not see it, what it is called and that it has no place."""
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
    await expire(call.store, call.store.now())
    limit = min(paging.read_number(params, "limit", DEFAULT_LIMIT), MAX_LIMIT)
    after = events_page.position(call)

    def run(read: store.Read) -> dict[str, Any]:
        # Everything up to here is seen by this answer, whether or not it is of this user or stream.
        top = read(event_watch.TOP)[0]["top"]
        start = top if after is None else min(after, top)
        wanted = sorted(events.TREE) if stream == "changes" else []
        rows = []
        if stream != "sync":  # nothing is marked as synced here
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

    return calls.answer(await call.store.query(lambda read: events_page.in_one_snapshot(read, run)))


async def expire(opened: store.Store, now: int) -> None:
    """End the collaborations whose time is over, so that the streams tell of it."""
    if opened.read(_EXPIRED, now):
        await opened.write(lambda conn: _end(conn, now))


def _end(conn: Connection, now: int) -> None:
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
        after = call.store.read(event_watch.TOP)[0]["top"]
    message = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_gone, call.request, nursery.cancel_scope)
        message = await _hold(call, after)
        nursery.cancel_scope.cancel()
    if message is None:
        raise requests.ClientDisconnect
    return calls.answer({"message": message})


async def _hold(call: calls.Call, after: int) -> str:
    watch: event_watch.EventWatch = call.request.app.watch
    with trio.move_on_after(HOLD_SECONDS):
        await watch.wait(call.caller.id, after, actors.session_of(call.request))
        return events.NEW_CHANGE
    return events.RECONNECT


async def _until_gone(request: requests.Request, scope: trio.CancelScope) -> None:
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
