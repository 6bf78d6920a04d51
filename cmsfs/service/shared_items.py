"""What a shared link leads to: the item for who calls the API, the bytes for anybody with an open link.

The links themselves are in shared_links.py.

Rule: without the right word there is nothing here, and nothing says whether there was.
"""

from starlette import requests, responses

from cmsfs.models import items as shapes
from cmsfs.service import access, fields, files, link_uses, locks, operations, problems, shared_links, store
from cmsfs.service.operations import Operation


async def get(call: access.Call) -> responses.Response:
    if call.request.headers.get("boxapi") is None:
        raise problems.invalid("boxapi", "is missing", reason="missing_parameter")
    if call.caller.shared is None:
        raise problems.not_found("shared_item", "")
    row = call.store.read("SELECT * FROM item WHERE id = ?", call.caller.shared.item)[0]
    if call.is_unchanged(row):
        return responses.Response(status_code=304)
    return access.answer(fields.Shaper(call.store.read, call.fields, caller=call.caller).item(row))


async def download(request: requests.Request) -> responses.Response:
    opened: store.Store = request.app.store
    row = shared_links.find_open(opened.read, request.path_params["word"], opened.now())
    if row is None:
        raise problems.not_found("shared_item", "")
    locks.check_download(row, 0, opened.now())
    await link_uses.count_download(opened, request, row["id"])
    return files.send(opened, request, row, files.find_version(opened.read, row, None))


routes = [
    Operation(
        "GET /shared_items",
        get,
        "Get the item that a shared link shows",
        shapes.Item,
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
        also={206: operations.BYTES},
        errors=(403, 416),
        public=True,
        more="The bytes behind an open link; no token is needed.",
    ),
]
