"""Uploads by the script of a folder's page: files as they are, and the folders that contain them.

The body is streamed to the API's own upload operation.

Rule: a body is not read before its CSRF token is checked.
"""

from starlette import responses

from cmsfs.service.api import inner_calls
from cmsfs.service.web.session import WebSession


async def file(session: WebSession) -> responses.Response:
    """Upload a new file; its folder is among the attributes."""
    return await inner_calls.forward(session.request, session.store, session.caller, "POST /files/content")


async def version(session: WebSession) -> responses.Response:
    """Upload a new version of the file in the path."""
    return await inner_calls.forward(
        session.request, session.store, session.caller, "POST /files/{id}/content", wire_id=session.id
    )


async def folder(session: WebSession) -> responses.Response:
    """Create a folder of a dropped folder tree."""
    return await inner_calls.forward(session.request, session.store, session.caller, "POST /folders")
