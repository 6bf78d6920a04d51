"""Events: one for each change of the tree, for three weeks, and the long poll that waits for the next.

`record` is called inside the transaction of the change by what changes items (items.py, files.py), so that
there is no change without its event and no event without its change.  The source is stored as the item was
after the event, since the item goes on changing.

Rule: positions grow in the order of the commits; the numbers are never used again.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

import pydantic_core
import trio
from starlette import requests, responses

from cmsfs.models import events as shapes
from cmsfs.service import access, fields, operations, paging, problems, store
from cmsfs.service.operations import Operation

DEFAULT_LIMIT = 100
MAX_LIMIT = 500

RETENTION = 21 * 86_400 * 1_000_000

# A poll is answered after so long even if nothing happened; clients give a silent one up after 610 seconds.
HOLD_SECONDS = 300
RETRY_TIMEOUT = 610

# How often a poll looks whether another process has written to the same data.  Looking is a point read, as
# cheap as asking the database whether it was written to.
LOOK_SECONDS = 0.5

_STREAMS = ("all", "changes", "sync")
_TOP = "SELECT coalesce(max(seq), 0) AS top FROM sqlite_sequence WHERE name = 'event'"
_NEWEST = "SELECT coalesce(max(id), 0) AS top FROM event WHERE user = ?"


def record(conn: Connection, row: Row, word: str, *, by: int, now: int) -> None:
    """An event in the stream of everybody who sees the item, which is the row as it is now."""
    source = pydantic_core.to_json(fields.Shaper(store.reader(conn)).item(row)).decode()
    conn.execute(
        "INSERT INTO event (user, type, created_at, created_by, source) VALUES (?, ?, ?, ?, ?)",
        (row["owner"], word, now, by, source),
    )
    # A few of the old ones go with each new one.
    conn.execute(
        "DELETE FROM event WHERE id < (SELECT min(id) + 10 FROM event) AND created_at < ?", (now - RETENTION,)
    )


async def get(call: access.Call) -> responses.Response:
    params = call.request.query_params
    stream = params.get("stream_type") or "all"
    if stream not in _STREAMS:
        raise problems.invalid("stream_type", f"must be one of {', '.join(_STREAMS)}")
    limit = min(paging.read_number(params, "limit", DEFAULT_LIMIT), MAX_LIMIT)
    after = _position(call)

    def run(read: store.Read) -> dict[str, Any]:
        # Everything up to here is seen by this answer, whether or not it is of this user or stream.
        top = read(_TOP)[0]["top"]
        start = top if after is None else min(after, top)
        wanted = sorted(shapes.TREE) if stream == "changes" else []
        rows = []
        if stream != "sync":  # nothing is marked as synced here
            rows = read(
                "SELECT * FROM event WHERE user = ? AND id > ? AND id <= ?"
                " AND (? OR type IN (SELECT value FROM json_each(?))) ORDER BY id LIMIT ?",
                *(call.caller.id, start, top, stream == "all", json.dumps(wanted), limit),
            )
        end = top
        if len(rows) == limit:
            end = rows[-1]["id"] if rows else start
        entries = _entries(read, rows)
        return {"chunk_size": len(entries), "next_stream_position": end, "entries": entries}

    return access.answer(await call.store.query(lambda read: _in_one_snapshot(read, run)))


def _in_one_snapshot(read: store.Read, run: Any) -> Any:
    """An event between two reads must not be stepped over."""
    read("BEGIN")
    try:
        return run(read)
    finally:
        read("ROLLBACK")


def _entries(read: store.Read, rows: list[Row]) -> list[dict[str, Any]]:
    numbers = json.dumps(sorted({row["created_by"] for row in rows}))
    found = read("SELECT * FROM user WHERE id IN (SELECT value FROM json_each(?))", numbers)
    users = {row["id"]: fields.user_mini(row) for row in found}
    return [
        {
            "type": "event",
            "event_id": f"{row['id']:032x}",
            "event_type": row["type"],
            "created_at": fields.moment(row["created_at"]),
            "recorded_at": fields.moment(row["created_at"]),
            "created_by": users.get(row["created_by"]),
            "session_id": None,
            "source": json.loads(row["source"]),
            "additional_details": {},
        }
        for row in rows
    ]


def _position(call: access.Call) -> int | None:
    """Where the client is; None is the present."""
    text = call.request.query_params.get("stream_position") or "0"
    if text == "now":
        return None
    number = access.parse_id(text)
    if number is None:
        raise problems.invalid("stream_position", "must be 'now', 0 or a position that was answered")
    return number


async def realtime(call: access.Call) -> responses.Response:
    url = call.request.url
    server = {
        "type": "realtime_server",
        "url": f"{url.scheme}://{url.netloc}/2.0/events/wait",
        "ttl": "10",
        "max_retries": "10",
        "retry_timeout": RETRY_TIMEOUT,
    }
    return access.answer({"chunk_size": 1, "entries": [server]})


async def wait(call: access.Call) -> responses.Response:
    """The long poll: answered as soon as there is something new for this user."""
    after = _position(call) if "stream_position" in call.request.query_params else None
    if after is None:
        after = call.store.read(_TOP)[0]["top"]
    message = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_until_gone, call.request, nursery.cancel_scope)
        message = await _hold(call, after)
        nursery.cancel_scope.cancel()
    if message is None:
        raise requests.ClientDisconnect
    return access.answer({"message": message})


async def _hold(call: access.Call, after: int) -> str:
    with trio.move_on_after(HOLD_SECONDS):
        while True:
            # Taken before looking: a write after the look sets this one.
            written = call.store.written
            if call.store.read(_NEWEST, call.caller.id)[0]["top"] > after:
                return shapes.NEW_CHANGE
            with trio.move_on_after(LOOK_SECONDS):
                await written.wait()
    return shapes.RECONNECT


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
        shapes.Page,
        query=[
            operations.choice("stream_type", "Which events.", *_STREAMS),
            _POSITION,
            operations.Parameter("limit", f"How many at most, up to {MAX_LIMIT}.", operations.OFFSET.schema),
        ],
    ),
    Operation("OPTIONS /events", realtime, "Ask where to wait for events", shapes.RealtimeServers),
    Operation("GET /events/wait", wait, "Wait for an event", shapes.Notice, query=[_POSITION]),
]
