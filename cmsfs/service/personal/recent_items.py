"""A user's recent items: uploaded, changed or commented on in the last 90 days, each item once."""

from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.models.content import collections
from cmsfs.service.access import access_rights, calls
from cmsfs.service.api import marker_pagination, operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemStatus

PERIOD = 90 * 86_400 * 1_000_000
MOST = 1000

# The number of latest interactions that are searched; each source is read by its index, from the end.
_LOOKED_AT = 5000
_LATEST = """
  SELECT file AS item, created_at AS at,
      CASE WHEN id = (SELECT min(id) FROM version AS first WHERE first.file = version.file)
        THEN 'item_upload' ELSE 'item_modify' END AS word
    FROM version WHERE created_by = ?1 AND created_at > ?2
  UNION ALL
  SELECT item, created_at, 'item_comment' FROM comment WHERE created_by = ?1 AND created_at > ?2
  ORDER BY at DESC LIMIT ?3
"""


async def list_all(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    limit = min(paging.read_number(params, "limit", paging.DEFAULT_LIMIT, least=1), MOST)
    offset = marker_pagination.read_marker(params)

    def run(read: store.Read) -> dict[str, Any]:
        latest: dict[int, Row] = {}
        for row in read(_LATEST, call.caller.id, call.store.now() - PERIOD, _LOOKED_AT):
            latest.setdefault(row["item"], row)
        rows = _seen(read, call, list(latest))[:MOST]
        page = rows[offset : offset + limit]
        items = item_serializer.ItemSerializer(read, call.fields, caller=call.caller).items(page)
        entries = [
            {
                "type": "recent_item",
                "interaction_type": latest[row["id"]]["word"],
                "interacted_at": item_serializer.to_timestamp(latest[row["id"]]["at"]),
                "item": item,
                "interaction_shared_link": None,
            }
            for row, item in zip(page, items, strict=True)
        ]
        more = offset + limit < len(rows)
        return {"limit": limit, "next_marker": str(offset + limit) if more else None, "entries": entries}

    return calls.answer(await call.store.query(run))


def _seen(read: store.Read, call: calls.Call, numbers: list[int]) -> list[Row]:
    """Return those of the items that the caller sees, in this order."""
    found = {}
    for start in range(0, len(numbers), MOST):
        marks = ",".join("?" * len(numbers[start : start + MOST]))
        for row in read(f"SELECT * FROM item WHERE id IN ({marks})", *numbers[start : start + MOST]):
            if row["status"] == ItemStatus.ACTIVE:
                found[row["id"]] = row
    rows = [found[number] for number in numbers if number in found]
    view = access_rights.View(read, call.caller)
    view.look_up(rows)
    return [row for row in rows if view.rights(row)]


routes = [
    Operation(
        "GET /recent_items",
        list_all,
        "List what the user last worked on",
        collections.RecentItems,
        query=(*operations.MARKED, operations.FIELDS),
        more="Uploads, new versions and comments of the last 90 days, at most 1,000 items.",
    ),
]
