"""Watermarks on files and folders; a folder's watermark covers everything below it.

A watermark is a property of the item; programs that display content have to apply it.

Rule: marking an item needs the right to manage it; whoever sees the item sees the mark.
"""

from functools import partial
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import watermarks
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind


def _shape(row: Row) -> dict[str, Any]:
    return {
        "watermark": {name: item_serializer.to_timestamp(row[name]) for name in ("created_at", "modified_at")}
    }


def _find(read: store.Read, item: Row) -> Row | None:
    found = read("SELECT * FROM watermark WHERE item = ?", item["id"])
    return found[0] if found else None


def _missing(call: calls.Call) -> problems.Refused:
    return problems.not_found("watermark", call.id)


async def get(kind: ItemKind, call: calls.Call) -> responses.Response:
    found = _find(call.store.read, calls.get_item(call.store.read, call.caller, kind, call.id))
    if found is None:
        raise _missing(call)
    return calls.answer(_shape(found))


async def put(kind: ItemKind, call: calls.Call) -> responses.Response:
    await call.body(watermarks.SetWatermark)

    def txn(conn: Connection) -> tuple[dict[str, Any], int]:
        read = store.reader(conn)
        row = calls.get_for_change(read, call, kind, call.id, needed=ItemRight.MANAGE)
        known = _find(read, row)
        now = call.store.now()
        conn.execute(
            "INSERT INTO watermark VALUES (?1, ?2, ?2) ON CONFLICT (item) DO UPDATE SET modified_at = ?2",
            (row["id"], now),
        )
        made = _find(read, row)
        assert made is not None
        return _shape(made), 201 if known is None else 200

    return calls.answer(*await call.store.write(txn))


async def delete(kind: ItemKind, call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = calls.get_for_change(store.reader(conn), call, kind, call.id, needed=ItemRight.MANAGE)
        if conn.execute("DELETE FROM watermark WHERE item = ?", (row["id"],)).rowcount == 0:
            raise _missing(call)

    await call.store.write(txn)
    return responses.Response(status_code=204)


routes = [
    route
    for kind in (ItemKind.FILE, ItemKind.FOLDER)
    for path, noun in [(f"/{KIND_NAMES[kind]}s/{{id}}/watermark", KIND_NAMES[kind])]
    for route in (
        Operation(f"GET {path}", partial(get, kind), f"Get the watermark of a {noun}", watermarks.Watermark),
        Operation(
            f"PUT {path}",
            partial(put, kind),
            f"Put a watermark on a {noun}",
            watermarks.Watermark,
            body=watermarks.SetWatermark,
            also={201: watermarks.Watermark},
            more="201 if it is new, 200 if there is one already.",
        ),
        Operation(f"DELETE {path}", partial(delete, kind), f"Take the watermark off a {noun}", status=204),
    )
]
