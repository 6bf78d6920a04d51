"""Direct uploads: new file, new version, and the preflight check.

The body is multipart and is parsed as it arrives: the attributes come first and are judged before the
first byte of the file is looked at.  The file is the part that is called `file`, else the first with a file
name; other parts are passed over.  Bytes go to the disk as they come, never into memory as a whole.

Rule: the file is kept durably before its row is written, and the row before the answer is sent.
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

# The whole file, but for what has to be made first: that is asked for by its name.
_WHOLE = [
    name for name in models_items.File.model_fields if name not in ("expiring_embed_link", "representations")
]


@dataclass(frozen=True, slots=True)
class UploadedContent:
    """Bytes that are durably among the contents."""

    sha1: str
    size: int
    seen: extraction.Look  # for search


async def new_file(call: calls.Call) -> responses.Response:
    def judge(wish: uploads.UploadAttributes) -> Row:
        return judge_new(call.store.read, call, wish.name, wish.parent.id)

    async with call.store.blobs.receive() as incoming:
        wish = await _receive(call, incoming, uploads.UploadAttributes, judge)
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
    """A new file with this content, judged once more inside the transaction."""
    read = store.reader(conn)
    parent = judge_new(read, call, name, parent_id)
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
    indexing.note(conn, row, content.seen)
    return row


async def new_version(call: calls.Call) -> responses.Response:
    def judge(wish: uploads.VersionAttributes) -> Row:
        return judge_version(call.store.read, call, call.id, wish.name)

    async with call.store.blobs.receive() as incoming:
        wish = await _receive(call, incoming, uploads.VersionAttributes, judge)
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
    """The file with this content as its next version, perhaps under another name, `more` columns with it."""
    read = store.reader(conn)
    row = judge_version(read, call, file_id, name)
    quota.check_upload(read, row["owner"], content.size)
    now = call.store.now()
    columns = items.relocation(conn, call, row, parent_id=None, name=name)
    items.grow(conn, row["path"], content.size - row["size"])
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
    indexing.note(conn, row, content.seen)
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
    return _welcome(call, "files/content")


async def preflight_version(call: calls.Call) -> responses.Response:
    wish = await call.body(uploads.Preflight)
    row = judge_version(call.store.read, call, call.id, wish.name)
    quota.check_upload(call.store.read, row["owner"], wish.size or 0)
    return _welcome(call, f"files/{row['id']}/content")


def _welcome(call: calls.Call, path: str) -> responses.Response:
    return calls.answer({"upload_url": address(call, path), "upload_token": None})


def address(call: calls.Call, path: str) -> str:
    """An absolute URL of the upload host, which is the host that was asked."""
    url = call.request.url
    return f"{url.scheme}://{url.netloc}/api/2.0/{path}"


def judge_new(read: store.Read, call: calls.Call, name: str, parent_id: str) -> Row:
    """The folder that a new file may go to."""
    items.check_name(name)
    parent = calls.get_target(read, call.caller, parent_id)
    items.check_free(read, parent["id"], name)
    return parent


def judge_version(read: store.Read, call: calls.Call, file_id: str, name: str | None) -> Row:
    """The file that may get a new version, and perhaps another name."""
    needed = ItemRight.EDIT
    found = calls.get_item(read, call.caller, ItemKind.FILE, file_id) if name is not None else None
    # The name that it has is no change; some clients always send it.
    if found is not None and found["name"] != name:
        needed |= ItemRight.CHANGE
    row = calls.get_for_change(read, call, ItemKind.FILE, file_id, needed=needed)
    if name is not None:
        items.check_name(name)
        items.check_free(read, row["parent"], name, besides=row["id"])
    return row


async def _receive(
    call: calls.Call, incoming: blobs.IncomingBlob, model: type[A], judge: Callable[[A], Row]
) -> A:
    """Read the body to its end: the attributes, judged at once, and the file into `incoming`."""
    form = _Form(call, incoming, model, judge)
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
    """What a part is: of two that may be the file, the one that is more."""

    OTHER = enum.auto()
    ATTRIBUTES = enum.auto()
    NAMED = enum.auto()  # it has a file name, be it empty: what clients send under names of their own
    FILE = enum.auto()


def _part(part: multipart.MultipartSegment) -> _Part:
    if part.name == "attributes":
        return _Part.ATTRIBUTES
    if part.name == "file":
        return _Part.FILE
    return _Part.OTHER if part.filename is None else _Part.NAMED


class _Form(Generic[A]):
    """The parts of an upload as they arrive."""

    def __init__(
        self, call: calls.Call, incoming: blobs.IncomingBlob, model: type[A], judge: Callable[[A], Row]
    ) -> None:
        self._call = call
        self._incoming = incoming
        self._model = model
        self._judge = judge
        self._owner = call.caller.id
        self._part = _Part.OTHER
        self._found = _Part.OTHER  # the best that came
        self._head = bytearray()
        self._wish: A | None = None

    async def take(self, event: Any) -> None:
        """The next event of the parser: a part begins, goes on, or (None) ends."""
        if isinstance(event, multipart.MultipartSegment):
            await self._begin(event)
        elif self._part is _Part.ATTRIBUTES:
            self._take_attributes(event)
        elif self._part is not _Part.OTHER and event is not None:
            await self._incoming.write(bytes(event))
            quota.check_upload(self._call.store.read, self._owner, self._incoming.size)

    async def _begin(self, part: multipart.MultipartSegment) -> None:
        """What the part that begins is, beside those that came before."""
        self._part = _part(part)
        if self._part is _Part.OTHER:
            return
        if self._part is _Part.ATTRIBUTES:
            if self._wish is not None:
                raise problems.invalid("attributes", "may come only once")
            return
        if self._wish is None:
            said = "The attributes must come before the file."
            raise problems.Refused(400, "metadata_after_file_contents", said)
        if self._part is _Part.FILE and self._found is _Part.FILE:
            raise problems.invalid("file", "may come only once")
        if self._part > self._found:
            if self._found is not _Part.OTHER:
                await self._incoming.begin_anew()
            self._found = self._part
        else:
            self._part = _Part.OTHER

    def _take_attributes(self, data: bytes | None) -> None:
        if data is not None:
            self._head += data
            if len(self._head) > MAX_ATTRIBUTES:
                raise problems.invalid("attributes", "are too long")
            return
        self._wish = self._model.model_validate_json(bytes(self._head))
        self._owner = self._judge(self._wish)["owner"]

    def result(self) -> A:
        if self._wish is None or self._found is _Part.OTHER:
            name = "attributes" if self._wish is None else "file"
            raise problems.invalid(name, "is missing", reason="missing_parameter")
        return self._wish


def _boundary(call: calls.Call) -> str:
    kind, options = multipart.parse_options_header(call.request.headers.get("content-type", ""))
    if kind != "multipart/form-data" or not options.get("boundary"):
        raise problems.Refused(415, "unsupported_media_type", "An upload is multipart/form-data.")
    boundary: str = options["boundary"]
    return boundary


async def _keep(call: calls.Call, incoming: blobs.IncomingBlob) -> UploadedContent:
    """Store what has arrived, if it is what was sent."""
    expected = call.request.headers.get(wire_names.SHA1_HEADER)
    seen: list[extraction.Look] = []

    def check(actual: str) -> None:
        if expected is not None and expected.lower() != actual:
            raise problems.Refused(400, "bad_digest", f"The file has the SHA-1 {actual}, not {expected}.")
        seen.append(extraction.look(incoming.head, incoming.size))

    sha1 = await incoming.keep(check)
    return UploadedContent(sha1, incoming.size, seen[0])


def _micros(when: Any) -> int | None:
    return None if when is None else item_serializer.micros(when)


def result(read: store.Read, call: calls.Call, row: Row) -> dict[str, Any]:
    """The list with the one file: all of it, unless the request says what of it."""
    # An older client of the public API makes attributes of fields: `lock` would hide its method of that name.
    wanted = _WHOLE if call.fields is None and not marker_pagination.of_public_api(call) else call.fields
    return {
        "total_count": 1,
        "entries": [item_serializer.ItemSerializer(read, wanted, caller=call.caller).item(row)],
    }


async def complete(call: calls.Call, answered: dict[str, Any]) -> dict[str, Any]:
    """The same with what has to be made first, where it was asked for."""
    (file,) = answered["entries"]
    await representations.add(call, [file])
    if "expiring_embed_link" in (call.fields or ()):
        row = call.store.read("SELECT * FROM item WHERE id = ?", int(file["id"]))[0]
        await embed_links.add(call, row, file)
    return answered


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
    # A question with a body, not a browser's; one client asks it with a slash at the end.
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
