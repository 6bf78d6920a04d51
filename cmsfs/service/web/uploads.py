"""What the script of a folder's page sends: files as they are, and the folders that they are in.

The body goes on to the API's own upload as it arrives.

Rule: a body is not touched before its proof is.
"""

from starlette import responses

from cmsfs.service.api import inner_calls
from cmsfs.service.web.session import WebSession


async def file(session: WebSession) -> responses.Response:
    """A new file; its folder is among its attributes."""
    return await inner_calls.hand_on(session.request, session.store, session.caller, "POST /files/content")


async def version(session: WebSession) -> responses.Response:
    """A new version of the file in the path."""
    return await inner_calls.hand_on(
        session.request, session.store, session.caller, "POST /files/{id}/content", wire_id=session.id
    )


async def folder(session: WebSession) -> responses.Response:
    """A folder that files are dropped with."""
    return await inner_calls.hand_on(session.request, session.store, session.caller, "POST /folders")
