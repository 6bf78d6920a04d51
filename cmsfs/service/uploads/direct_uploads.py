"""Direct uploads: new file, new version, and the preflight check.

The multipart body is parsed as it arrives: the attributes come first and are checked before the file's first
byte is processed.  The file is the part named `file`, else the first with a file name; other parts are
ignored.  The file is written to disk as it arrives and never held in memory as a whole.

Rule: the content is stored durably before its row is written, and the row before the response is sent.
"""

import enum
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Connection, Row
from typing import Any, Generic, TypeVar

import multipart
from starlette import responses

from cmsfs.models import base, wire_names
from cmsfs.models.content import items as models_items
from cmsfs.models.content import uploads
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import files, items, quota
from cmsfs.service.renditions import embed_links, indexing, representations
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import blobs, store
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.worker import extraction

A = TypeVar("A", bound=base.Model)

MAX_ATTRIBUTES = 64 * 1024

# All fields of a file, except those that must be generated first; these are returned only on request.
_ALL_FIELDS = [
    name for name in models_items.File.model_fields if name not in ("expiring_embed_link", "representations")
]


@dataclass(frozen=True, slots=True)
class UploadedContent:
    """A content that is stored durably, but not referenced yet."""

    sha1: str
    size: int
    inspection: extraction.FirstLook  # for search


async def new_file(call: calls.Call) -> responses.Response:
    def check(wish: uploads.UploadAttributes) -> Row:
        return check_new_file(call.store.read, call, wish.name, wish.parent.id)

    async with call.store.blobs.receive() as incoming:
        wish = await _receive(call, incoming, uploads.UploadAttributes, check)
        content = await _keep(call, incoming)

        def txn(conn: Connection) -> dict[str, Any]:
            row = add_file(
                conn,
                call=call,
                content=content,
                parent_id=wish.parent.id,
                name=wish.name,
                content_created_at=wish.content_created_at,
                content_modified_at=wish.content_modified_at,
            )
            return result(store.reader(conn), call, row)

        return calls.answer(await complete(call, await call.store.write(txn)), 201)


def add_file(
    conn: Connection,
    call: calls.Call,
    content: UploadedContent,
    parent_id: str,
    name: str,
    *,
    content_created_at: datetime | None = None,
    content_modified_at: datetime | None = None,
    description: str = "",
) -> Row:
    """Add a file with this content; permissions and name are checked again inside the transaction."""
    read = store.reader(conn)
    parent = check_new_file(read, call, name, parent_id)
    quota.check_upload(read, parent["owner"], content.size)
    now = call.store.now()
    new = items.New(
        kind=ItemKind.FILE,
        name=name,
        size=content.size,
        sha1=content.sha1,
        description=description,
        content_created_at=_micros(content_created_at),
        content_modified_at=_micros(content_modified_at),
    )
    row = items.insert(conn, parent, new, by=call.caller.id, now=now)
    call.store.blobs.ensure(conn, content.sha1)
    row = files.add_version(conn, row, by=call.caller.id, now=now)
    indexing.record_content(conn, row, content.inspection)
    return row


async def new_version(call: calls.Call) -> responses.Response:
    def check(wish: uploads.VersionAttributes) -> Row:
        return check_new_version(call.store.read, call, call.id, wish.name)

    async with call.store.blobs.receive() as incoming:
        wish = await _receive(call, incoming, uploads.VersionAttributes, check)
        content = await _keep(call, incoming)

        def txn(conn: Connection) -> dict[str, Any]:
            modified = wish.content_modified_at
            row = add_content(conn, call, content, call.id, wish.name, content_modified_at=modified)
            return result(store.reader(conn), call, row)

        return calls.answer(await complete(call, await call.store.write(txn)), 200)


def add_content(
    conn: Connection,
    call: calls.Call,
    content: UploadedContent,
    file_id: str,
    name: str | None,
    *,
    content_modified_at: datetime | None = None,
    **more: Any,
) -> Row:
    """Add this content as a file's next version; may rename it, and sets the columns in `more`."""
    read = store.reader(conn)
    row = check_new_version(read, call, file_id, name)
    quota.check_upload(read, row["owner"], content.size)
    now = call.store.now()
    columns = items.plan_move(conn, call, row, parent_id=None, name=name)
    items.add_to_folder_sizes(conn, row["path"], content.size - row["size"])
    columns |= more | {
        "sha1": content.sha1,
        "size": content.size,
        "version_number": row["version_number"] + 1,
        "content_modified_at": now
        if content_modified_at is None
        else item_serializer.micros(content_modified_at),
    }
    row = items.touch(conn, row, by=call.caller.id, now=now, event=None, **columns)
    call.store.blobs.ensure(conn, content.sha1)
    row = files.add_version(conn, row, by=call.caller.id, now=now, renamed="name" in columns)
    indexing.record_content(conn, row, content.inspection)
    return row


async def preflight_new(call: calls.Call) -> responses.Response:
    wish = await call.body(uploads.Preflight)
    if wish.name is not None:
        items.check_name(wish.name)
    payer = call.caller.id
    if wish.parent is not None:
        parent = calls.get_target(call.store.read, call.caller, wish.parent.id)
        if wish.name is not None:
            items.check_free(call.store.read, parent["id"], wish.name)
        payer = parent["owner"]
    quota.check_upload(call.store.read, payer, wish.size or 0)
    return _preflight_answer(call, "files/content")


async def preflight_version(call: calls.Call) -> responses.Response:
    wish = await call.body(uploads.Preflight)
    row = check_new_version(call.store.read, call, call.id, wish.name)
    quota.check_upload(call.store.read, row["owner"], wish.size or 0)
    return _preflight_answer(call, f"files/{row['id']}/content")


def _preflight_answer(call: calls.Call, path: str) -> responses.Response:
    return calls.answer({"upload_url": upload_url(call, path), "upload_token": None})


def upload_url(call: calls.Call, path: str) -> str:
    """An absolute URL on the upload host, which is the host of the request."""
    url = call.request.url
    return f"{url.scheme}://{url.netloc}/api/2.0/{path}"


def check_new_file(read: store.Read, call: calls.Call, name: str, parent_id: str) -> Row:
    """The parent folder of a new file, if the caller may create it there."""
    items.check_name(name)
    parent = calls.get_target(read, call.caller, parent_id)
    items.check_free(read, parent["id"], name)
    return parent


def check_new_version(read: store.Read, call: calls.Call, file_id: str, name: str | None) -> Row:
    """The file, if the caller may upload a new version, and rename it if `name` differs."""
    needed = ItemRight.EDIT
    found = calls.get_item(read, call.caller, ItemKind.FILE, file_id) if name is not None else None
    # Some clients always send the current name, which is no change.
    if found is not None and found["name"] != name:
        needed |= ItemRight.CHANGE
    row = calls.get_for_change(read, call, ItemKind.FILE, file_id, needed=needed)
    if name is not None:
        items.check_name(name)
        items.check_free(read, row["parent"], name, besides=row["id"])
    return row


async def _receive(
    call: calls.Call, incoming: blobs.IncomingBlob, model: type[A], check: Callable[[A], Row]
) -> A:
    """Read the whole body: returns the attributes, checked at once, and writes the file to `incoming`."""
    form = _Form(call, incoming, model, check)
    boundary = _boundary(call)
    try:
        parser = multipart.PushMultipartParser(boundary)
        async with aclosing(call.request.stream()) as chunks:
            async for chunk in chunks:
                for event in parser.parse(chunk) if chunk else ():
                    await form.take(event)
        parser.close()
    except multipart.MultipartError as error:
        raise problems.invalid("body", f"is no multipart form: {error}") from None
    return form.result()


class _Part(enum.IntEnum):
    """The kind of a part; of several candidates for the file, the highest wins."""

    OTHER = enum.auto()
    ATTRIBUTES = enum.auto()
    NAMED = enum.auto()  # has a file name, even an empty one: some clients name the file part otherwise
    FILE = enum.auto()


def _part(part: multipart.MultipartSegment) -> _Part:
    if part.name == "attributes":
        return _Part.ATTRIBUTES
    if part.name == "file":
        return _Part.FILE
    return _Part.OTHER if part.filename is None else _Part.NAMED


class _Form(Generic[A]):
    """Processes the parts of an upload as they arrive."""

    def __init__(
        self, call: calls.Call, incoming: blobs.IncomingBlob, model: type[A], check: Callable[[A], Row]
    ) -> None:
        self._call = call
        self._incoming = incoming
        self._model = model
        self._check = check
        self._owner = call.caller.id
        self._part = _Part.OTHER
        self._best = _Part.OTHER  # the highest kind so far
        self._attributes_json = bytearray()
        self._attributes: A | None = None

    async def take(self, event: Any) -> None:
        """Process the parser's next event: a part begins, continues, or (None) ends."""
        if isinstance(event, multipart.MultipartSegment):
            await self._begin(event)
        elif self._part is _Part.ATTRIBUTES:
            self._append_attributes(event)
        elif self._part is not _Part.OTHER and event is not None:
            await self._incoming.write(bytes(event))
            quota.check_upload(self._call.store.read, self._owner, self._incoming.size)

    async def _begin(self, part: multipart.MultipartSegment) -> None:
        """Classify the part that begins, given the parts before it."""
        self._part = _part(part)
        if self._part is _Part.OTHER:
            return
        if self._part is _Part.ATTRIBUTES:
            if self._attributes is not None:
                raise problems.invalid("attributes", "may come only once")
            return
        if self._attributes is None:
            message = "The attributes must come before the file."
            raise problems.Refused(400, "metadata_after_file_contents", message)
        if self._part is _Part.FILE and self._best is _Part.FILE:
            raise problems.invalid("file", "may come only once")
        if self._part > self._best:
            if self._best is not _Part.OTHER:
                await self._incoming.reset()
            self._best = self._part
        else:
            self._part = _Part.OTHER

    def _append_attributes(self, data: bytes | None) -> None:
        if data is not None:
            self._attributes_json += data
            if len(self._attributes_json) > MAX_ATTRIBUTES:
                raise problems.invalid("attributes", "are too long")
            return
        self._attributes = self._model.model_validate_json(bytes(self._attributes_json))
        self._owner = self._check(self._attributes)["owner"]

    def result(self) -> A:
        if self._attributes is None or self._best is _Part.OTHER:
            name = "attributes" if self._attributes is None else "file"
            raise problems.invalid(name, "is missing", reason="missing_parameter")
        return self._attributes


def _boundary(call: calls.Call) -> str:
    kind, options = multipart.parse_options_header(call.request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise problems.Refused(415, "unsupported_media_type", "An upload is multipart/form-data.")
    boundary: str = options["boundary"]
    return boundary


async def _keep(call: calls.Call, incoming: blobs.IncomingBlob) -> UploadedContent:
    """Store the received content; 400 if it does not match the client's SHA-1."""
    expected = call.request.headers.get(wire_names.SHA1_HEADER)
    inspection: list[extraction.FirstLook] = []

    def check(actual: str) -> None:
        if expected is not None and expected.lower() != actual:
            raise problems.Refused(400, "bad_digest", f"The file has the SHA-1 {actual}, not {expected}.")
        inspection.append(extraction.first_look(incoming.head, incoming.size))

    sha1 = await incoming.keep(check)
    return UploadedContent(sha1, incoming.size, inspection[0])


def _micros(when: Any) -> int | None:
    return None if when is None else item_serializer.micros(when)


def result(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    """A list with the one file: all of its fields, unless the request selects some."""
    # An older client of the public API turns fields into attributes; `lock` would hide its method.
    wanted = _ALL_FIELDS if call.fields is None and not marker_pagination.of_public_api(call) else call.fields
    return {
        "total_count": 1,
        "entries": [item_serializer.ItemSerializer(read, wanted, caller=call.caller).item(row)],
    }


async def complete(call: calls.Call, answer: dict[str, Any]) -> dict[str, Any]:
    """Add the requested fields that must be generated first."""
    (file,) = answer["entries"]
    await representations.add(call, [file])
    if "expiring_embed_link" in (call.fields or ()):
        row = call.store.read("SELECT * FROM item WHERE id = ?", int(file["id"]))[0]
        await embed_links.add(call, row, file)
    return answer


_SHA1_HEADER = operations.header(wire_names.SHA1_HEADER, "The SHA-1 of the file in hexadecimal.")
routes = [
    Operation(
        "POST /files/content",
        new_file,
        "Upload a file",
        uploads.UploadResult,
        status=201,
        body=operations.UploadForm(uploads.UploadAttributes),
        query=[operations.FIELDS],
        headers=[_SHA1_HEADER],
        errors=(404, 409, 415),
    ),
    # A preflight check with a body, not a browser's CORS request; one client sends a trailing slash.
    *(
        Operation(
            f"OPTIONS /files/content{slash}",
            preflight_new,
            "Ask whether a file would be taken",
            uploads.PreflightAnswer,
            body=uploads.Preflight,
            errors=(404, 409),
        )
        for slash in ("", "/")
    ),
    Operation(
        "POST /files/{id}/content",
        new_version,
        "Upload a version of a file",
        uploads.UploadResult,
        body=operations.UploadForm(uploads.VersionAttributes),
        query=[operations.FIELDS],
        headers=[_SHA1_HEADER, operations.IF_MATCH],
        errors=(409, 415),
    ),
    Operation(
        "OPTIONS /files/{id}/content",
        preflight_version,
        "Ask whether a version would be taken",
        uploads.PreflightAnswer,
        headers=[operations.IF_MATCH],
        body=uploads.Preflight,
        errors=(409,),
    ),
]
