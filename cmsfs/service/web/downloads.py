"""Downloads of files, and the preview images on pages.

Rule: bytes are sent as a download, never as a page; images are the service's own renditions.
"""

from starlette import responses

from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import inner_calls
from cmsfs.service.renditions import representations
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.web import folders
from cmsfs.service.web.session import Mistake, WebSession

PICTURE = "jpg_1024x1024"


async def content(session: WebSession) -> responses.Response:
    """Send a file's bytes, or a version's; a folder as an archive."""
    if session.kind == "folder":
        return await folders.download(session, [("folder", session.id)])
    if session.kind != "file":
        raise Mistake("A web link has nothing to download.", status=404)
    query = {"version": session.request.query_params.get("version", "")}
    return await inner_calls.call_operation(
        session.request,
        session.store,
        session.caller,
        "GET /files/{id}/content",
        wire_id=session.id,
        query=query,
    )


async def preview(session: WebSession) -> responses.Response:
    """Send the preview image of a file."""
    try:
        row = calls.get_item(
            session.store.read, session.caller, ItemKind.FILE, session.id, needed=ItemRight.PREVIEW
        )
        if row["extension"] not in representations.PICTURE_TYPES:
            raise problems.not_found("preview", session.id)
        data = await representations.read(session.store, row["sha1"], PICTURE)
    except problems.Refused as refused:
        raise inner_calls.as_mistake(refused) from None
    if data is None:
        raise Mistake("The picture is being made.", status=404)
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    return responses.Response(data, 200, headers, media_type="image/jpeg")
