"""`GET /files/:id/thumbnail.png` and `.jpg`: the thumbnail endpoint.

Available sizes: 32, 64, 128 and 256 pixels as PNG, 32, 94, 160 and 320 as JPEG.  The smallest one within the
requested bounds is sent.  While it is being made, the response is 202 with the time to wait and the URL of a
placeholder image; files without thumbnails are redirected to that.

Rule: same rights as in representations.py.
"""

import struct
import zlib
from functools import partial

import pydantic
from starlette import requests, responses

from cmsfs.models import base
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.renditions import representations
from cmsfs.service.storage import derived_files
from cmsfs.service.storage.kinds import ItemKind

_SIZES = {
    extension: {
        size: name
        for name, (kind, size) in derived_files.PICTURES.items()
        if kind == extension and "_thumb_" in name
    }
    for extension in ("png", "jpg")
}
_PLACE = "/thumbnails/placeholder.png"


class Bounds(base.Model):
    """The requested size of a thumbnail."""

    min_height: int = pydantic.Field(0, ge=0, le=320)
    min_width: int = pydantic.Field(0, ge=0, le=320)
    max_height: int = pydantic.Field(320, ge=32)
    max_width: int = pydantic.Field(320, ge=32)

    def contains(self, size: int) -> bool:
        return max(self.min_height, self.min_width) <= size <= min(self.max_height, self.max_width)


async def get(extension: str, call: calls.Call) -> responses.Response:
    bounds = _bounds(call.request)
    row = calls.get_item(call.store.read, call.caller, ItemKind.FILE, call.id, needed=ItemRight.PREVIEW)
    fitting = [name for size, name in _SIZES[extension].items() if bounds.contains(size)]
    if not fitting:
        raise problems.Refused(400, "requested_preview_unavailable", "There is no thumbnail of this size.")
    if row["extension"] not in representations.PICTURE_TYPES:
        return responses.Response(status_code=302, headers=_placeholder_location(call.request))
    data = await representations.read(call.store, row["sha1"], fitting[0])
    if data is None:
        headers = _placeholder_location(call.request) | {"Retry-After": str(representations.RETRY_SECONDS)}
        return responses.Response(status_code=202, headers=headers)
    return responses.Response(data, media_type=representations.MEDIA_TYPES[extension])


def _placeholder_location(request: requests.Request) -> dict[str, str]:
    url = request.url
    return {"Location": f"{url.scheme}://{url.netloc}{_PLACE}"}


def _bounds(request: requests.Request) -> Bounds:
    try:
        return Bounds.model_validate({name: one for name, one in request.query_params.items() if one})
    except pydantic.ValidationError:
        format_name = "A thumbnail's bounds are numbers from 32 to 320."
        raise problems.Refused(400, "requested_preview_unavailable", format_name) from None


def _gray_png(size: int) -> bytes:
    """Return a PNG that is gray all over."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xc8" * size) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


_PLACEHOLDER = _gray_png(32)


async def placeholder(request: requests.Request) -> responses.Response:
    return responses.Response(_PLACEHOLDER, media_type="image/png")


routes = [
    Operation(
        f"GET /files/{{id}}/thumbnail.{extension}",
        partial(get, extension),
        f"Get a small picture of a file as {format_name}",
        operations.BYTES,
        query=Bounds,
        also={202: None, 302: None},
    )
    for extension, format_name in (("png", "PNG"), ("jpg", "JPEG"))
]
public_routes = [
    Operation(f"GET {_PLACE}", placeholder, "Get a picture that says nothing", operations.BYTES, public=True)
]
