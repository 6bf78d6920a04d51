"""Resolves shared links: the item for API callers, the bytes for anybody with an open link.

The links themselves are in shared_links.py.

Rule: an unknown or inaccessible link gives 404, and the response does not tell which.
"""

from starlette import requests, responses

from cmsfs.models.content import items
from cmsfs.service import problems
from cmsfs.service.access import calls, locks, shared_links
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import files, link_stats
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store


async def get(call: calls.Call) -> responses.Response:
    if call.request.headers.get("boxapi") is None:
        raise problems.invalid("boxapi", "is missing", reason="missing_parameter")
    if call.caller.shared is None:
        raise problems.not_found("shared_item", "")
    row = call.store.read("SELECT * FROM item WHERE id = ?", call.caller.shared.item)[0]
    if call.is_unchanged(row):
        return responses.Response(status_code=304)
    return calls.answer(
        item_serializer.ItemSerializer(call.store.read, call.fields, caller=call.caller).item(row)
    )


async def download(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    row = shared_links.find_open(opened.read, request.path_params["word"], opened.now())
    if row is None:
        raise problems.not_found("shared_item", "")
    locks.check_download(row, 0, opened.now())
    await link_stats.count_download(opened, request, row["id"])
    version = files.find_version(opened.read, row, None)
    return files.send(opened, request, row, version, may_redirect=True)


routes = [
    Operation(
        "GET /shared_items",
        get,
        "Get the item that a shared link shows",
        items.Item,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK, operations.IF_NONE_MATCH],
        errors=(404,),
    ),
]
public_routes = [
    Operation(
        "GET /shared/static/{word}",
        download,
        "Download what an open link shows",
        operations.BYTES,
        headers=[operations.RANGE],
        also={206: operations.BYTES, 302: None},
        errors=(403, 416),
        public=True,
        more="The bytes behind an open link, or a redirect to them; no token is needed.",
    ),
]
