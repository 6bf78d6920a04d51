"""Uploads by the script of a folder's page: files, large ones in parts, and the folders that contain them.

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


async def begin(session: WebSession) -> responses.Response:
    """Begin the upload of a new file in parts."""
    return await _of_upload(session, "POST /files/upload_sessions")


async def begin_version(session: WebSession) -> responses.Response:
    """Begin the upload of a new version in parts."""
    return await _of_upload(session, "POST /files/{id}/upload_sessions")


async def part(session: WebSession) -> responses.Response:
    return await _of_upload(session, "PUT /files/upload_sessions/{id}")


async def parts(session: WebSession) -> responses.Response:
    """List the parts that have arrived."""
    return await _of_upload(session, "GET /files/upload_sessions/{id}/parts")


async def commit(session: WebSession) -> responses.Response:
    return await _of_upload(session, "POST /files/upload_sessions/{id}/commit")


async def abort(session: WebSession) -> responses.Response:
    return await _of_upload(session, "DELETE /files/upload_sessions/{id}")


async def _of_upload(session: WebSession, line: str) -> responses.Response:
    wire_id = session.request.path_params.get("id", "")
    return await inner_calls.forward(session.request, session.store, session.caller, line, wire_id=wire_id)
