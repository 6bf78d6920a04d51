"""The collections of a user: their favorites, set by the field `collections` of items.

Rule: a collection shows what its user may see now; an item that they may not see stays in it, and reappears
with the right to see it.
"""

from typing import Any

from starlette import responses

from cmsfs.models.content import collections
from cmsfs.models.content import items as models_items
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_extras, item_serializer
from cmsfs.service.storage import store

# Latest first.
_FAVORITES = """
  SELECT item.* FROM favorite JOIN item ON item.id = favorite.item
    WHERE favorite.account = ? AND item.status = 0 ORDER BY added_at DESC, item.id DESC
"""


async def list_all(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    limit = paging.read_number(params, "limit", paging.DEFAULT_LIMIT, least=1)
    offset = paging.read_number(params, "offset", 0)
    entries = [item_extras.collection(call.caller.id)][offset : offset + limit]
    return calls.answer({"total_count": 1, "limit": limit, "offset": offset, "entries": entries})


def _own(call: calls.Call) -> None:
    if call.id != str(call.caller.id):
        raise problems.not_found("collection", call.id)


async def get(call: calls.Call) -> responses.Response:
    _own(call)
    return calls.answer(item_extras.collection(call.caller.id))


async def list_items(call: calls.Call) -> responses.Response:
    _own(call)
    params = call.request.query_params
    limit = min(paging.read_number(params, "limit", paging.DEFAULT_LIMIT, least=1), paging.MAX_LIMIT)
    offset = paging.read_number(params, "offset", 0)

    def run(read: store.Read) -> dict[str, Any]:
        view = access_rights.View(read, call.caller)
        rows = read(_FAVORITES, call.caller.id)
        view.look_up(rows)
        visible = [row for row in rows if view.rights(row)]
        shaper = item_serializer.ItemSerializer(read, call.fields, caller=call.caller)
        entries = shaper.items(visible[offset : offset + limit])
        return {"total_count": len(visible), "limit": limit, "offset": offset, "entries": entries}

    return calls.answer(await call.store.query(run))


_PAGE = (operations.LIMIT, operations.OFFSET)

routes = [
    Operation(
        "GET /collections",
        list_all,
        "List the collections of the user",
        collections.Collections,
        query=_PAGE,
        more="There is one, the favorites.  Items are put into it by their `collections`.",
    ),
    Operation("GET /collections/{id}", get, "Get a collection", models_items.Collection),
    Operation(
        "GET /collections/{id}/items",
        list_items,
        "List what is in a collection",
        collections.CollectionItems,
        query=(*_PAGE, operations.FIELDS),
    ),
]
