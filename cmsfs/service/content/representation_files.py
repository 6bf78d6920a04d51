"""Serves representations: their state, and their bytes.

Clients come here by the URLs that representations.py adds to a file, with their token; they only fill in
`{+asset_path}`: empty, or the name of the first page.

Rule: whoever may preview a file gets its representations, of any version.
"""

from sqlite3 import Row
from urllib.parse import quote

from starlette import responses

from cmsfs.models.content import items
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import files, link_stats
from cmsfs.service.renditions import representations
from cmsfs.service.storage.derived_files import PICTURES, TEXT
from cmsfs.service.storage.kinds import ItemKind


def _resolve(call: calls.Call) -> tuple[Row, Row, str]:
    """Return the file, the version and the name in the path; 404 if one does not exist."""
    params = call.request.path_params
    row = calls.get_item(call.store.read, call.caller, ItemKind.FILE, call.id, needed=ItemRight.PREVIEW)
    version = files.find_version(call.store.read, row, params["version"])
    name: str = params["name"]
    representations.check_offered(call.store.read, row["id"], name)
    return row, version, name


async def info(call: calls.Call) -> responses.Response:
    row, version, name = _resolve(call)
    state = await representations.request_state(call.store, version["sha1"], name)
    return calls.answer(representations.entry(call, row["id"], version["id"], name, state))


async def content(call: calls.Call) -> responses.Response:
    row, version, name = _resolve(call)
    params = call.request.query_params
    extension = "txt" if name == TEXT else PICTURES[name][0]
    if call.request.path_params["asset"] not in ("", f"1.{extension}"):
        raise problems.not_found("asset", call.request.path_params["asset"])
    data = await representations.read(call.store, version["sha1"], name)
    if data is None:
        return responses.Response(
            status_code=202, headers={"Retry-After": str(representations.RETRY_SECONDS)}
        )
    await link_stats.count_preview(call)
    await link_stats.notify_webhooks(call.store, "FILE.PREVIEWED", row, by=call.caller.id)
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
    if (shown := params.get("set_content_disposition_type")) in ("inline", "attachment"):
        filename = params.get("set_content_disposition_filename") or f"{row['name']}.{extension}"
        headers["Content-Disposition"] = f"{shown}; filename*=UTF-8''{quote(filename, errors='replace')}"
    media = "text/plain; charset=utf-8" if name == TEXT else representations.MEDIA_TYPES[extension]
    return responses.Response(data, 200, headers, media_type=media)


_PREFIX = "/internal_files/{id}/versions/{version}/representations/{name}"
_SHOWN_AS = "set_content_disposition_type"

routes = [
    Operation(
        f"GET {_PREFIX}",
        info,
        "Get how a representation stands",
        items.Representation,
        more="The status of a representation; asking for one has it made.",
    ),
    Operation(
        f"GET {_PREFIX}/content/{{asset:path}}",
        content,
        "Download a representation",
        operations.BYTES,
        query=[
            operations.choice(_SHOWN_AS, "What browsers do with it.", "inline", "attachment"),
            operations.Parameter("set_content_disposition_filename", "The name that it is given."),
        ],
        also={202: None},
    ),
]
