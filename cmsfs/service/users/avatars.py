"""Avatars: users set their own, administrators anybody's.

One image serves every size that clients request.
"""

from sqlite3 import Connection, Row
from typing import Any

import multipart
from starlette import responses

from cmsfs.models.enterprise import avatars
from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.storage import store

MAX_SIZE = 1024 * 1024
_ENVELOPE = 16 * 1024  # of the multipart form around the image

# Media types by the first bytes of a file.
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_SIZES = ("small", "large", "preview")


def _user(read: store.Read, call: calls.Call) -> Row:
    """Return the user in the path, whose avatar the caller may change."""
    if call.id != str(call.caller.id):
        calls.require_admin(call.caller)
    row = calls.get_user(read, call.caller, call.id)
    if call.id != str(call.caller.id):
        callers.check_rank(call.caller.role, row)
    return row


async def get(call: calls.Call) -> responses.Response:
    user = calls.get_user(call.store.read, call.caller, call.id)
    found = call.store.read("SELECT * FROM avatar WHERE account = ?", user["id"])
    if not found:
        raise problems.not_found("avatar", call.id)
    headers = {"Cache-Control": "private, max-age=300", "X-Content-Type-Options": "nosniff"}
    return responses.Response(found[0]["picture"], media_type=found[0]["media_type"], headers=headers)


async def create(call: calls.Call) -> responses.Response:
    picture = await _picture(call)
    kind = next((kind for start, kind in _KINDS.items() if picture.startswith(start)), None)
    if kind is None:
        raise problems.invalid("pic", "is neither a PNG nor a JPEG")

    def txn(conn: Connection) -> None:
        user = _user(store.reader(conn), call)
        conn.execute(
            "INSERT INTO avatar VALUES (?, ?, ?) ON CONFLICT (account)"
            " DO UPDATE SET media_type = excluded.media_type, picture = excluded.picture",
            (user["id"], kind, picture),
        )

    await call.store.write(txn)
    url = call.request.url
    base = f"{url.scheme}://{url.netloc}{url.path}"
    urls: dict[str, Any] = {size: f"{base}?pic_type={size}" for size in _SIZES}
    return calls.answer({"pic_urls": urls}, 201)


async def _picture(call: calls.Call) -> bytes:
    """Read the form's part `pic`."""
    kind, options = multipart.parse_options_header(call.request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise problems.Refused(415, "unsupported_media_type", "The body must be multipart/form-data.")
    data = await calls.read_body(call.request, MAX_SIZE + _ENVELOPE)
    found, is_it = bytearray(), False
    try:
        parser = multipart.PushMultipartParser(options["boundary"])
        for event in parser.parse(data):
            if isinstance(event, multipart.MultipartSegment):
                is_it = event.name == "pic"
            elif event and is_it:
                found += event
        parser.close()
    except multipart.MultipartError as error:
        raise problems.invalid("body", f"is no multipart form: {error}") from None
    if not found:
        raise problems.invalid("pic", "is missing", reason="missing_parameter")
    if len(found) > MAX_SIZE:
        raise problems.Refused(413, "request_entity_too_large", "A picture has 1 MiB at most.")
    return bytes(found)


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        user = _user(store.reader(conn), call)
        if not conn.execute("DELETE FROM avatar WHERE account = ?", (user["id"],)).rowcount:
            raise problems.not_found("avatar", call.id)

    await call.store.write(txn)
    return responses.Response(status_code=204)


routes = [
    Operation(
        "GET /users/{id}/avatar",
        get,
        "Get the picture of a user",
        operations.BYTES,
        query=[operations.choice("pic_type", "Of which size; there is one.", "profile", *_SIZES)],
    ),
    Operation(
        "POST /users/{id}/avatar",
        create,
        "Set the picture of a user",
        avatars.Avatar,
        status=201,
        body=operations.FileForm("pic"),
        errors=(415,),
        more="A PNG or JPEG of 1 MiB at most.",
    ),
    Operation("DELETE /users/{id}/avatar", delete, "Remove the picture of a user", status=204),
]
