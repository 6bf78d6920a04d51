"""What a shared link leads to: the item for who calls the API, the bytes for anybody with an open link.

The links themselves are in shared_links.py.

Rule: without the right word there is nothing here, and nothing says whether there was.
"""

from starlette import requests, responses, routing

from cmsfs.service import access, fields, files, locks, problems, shared_links, store


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
    """The bytes behind an open link, for who has no token."""
    opened: store.Store = request.app.store
    row = shared_links.find_open(opened.read, request.path_params["word"], opened.now())
    if row is None:
        raise problems.not_found("shared_item", "")
    locks.check_download(row, 0, opened.now())
    return files.send(opened, request, row, files.find_version(opened.read, row, None))


routes = [routing.Route("/shared_items", access.guarded(get), methods=["GET"])]
public_routes = [routing.Route("/shared/static/{word}", download, methods=["GET"])]
