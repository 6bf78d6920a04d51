"""Files: get, change, delete, copy.  Downloads are in downloads.py, uploads in the package `uploads`.

Content is streamed in 1 MiB chunks, read in threads.  Supported ranges are `bytes=a-b` and `bytes=a-`.  A
range that begins after the end, and the suffix form, which the public API does not support, get 416
`requested_page_out_of_range`; any other value is ignored and the whole content is sent.

Rule: a blob that is being read stays readable: blobs never change, and one that the sweeper deletes can be
read to its end through open handles.
"""

import json
import logging
import mimetypes
import re
from sqlite3 import Connection, Row
from typing import Any
from urllib.parse import quote

import trio
from starlette import requests, responses, types

from cmsfs.models.content import events
from cmsfs.models.content import items as models_items
from cmsfs.runtime import threads
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import instances, items, quota, trash
from cmsfs.service.events import events as service_events
from cmsfs.service.renditions import embed_links, indexing, representations
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import blobs, engine, store, tree_paths
from cmsfs.service.storage.kinds import ItemKind, ItemStatus

log = logging.getLogger(__name__)

# Below this size a redirect to another host takes longer than sending the bytes.
MIN_REDIRECT_BYTES = 64 * 1024

_WATERMARKED = (
    "SELECT 1 FROM watermark WHERE item IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) LIMIT 1"
)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


async def get(call: calls.Call) -> responses.Response:
    row = trash.get_active_or_trashed(call, ItemKind.FILE)
    if call.is_unchanged(row):
        return responses.Response(status_code=304)
    file = item_serializer.ItemSerializer(call.store.read, call.fields, caller=call.caller).item(row)
    if row["status"] == ItemStatus.TRASHED:
        return calls.answer(file)  # a trashed file has no downloads
    await representations.add(call, [file])
    await embed_links.add(call, row, file)
    return calls.answer(file)


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.UpdateItem)
    return calls.answer(await call.store.write(lambda conn: items.apply(conn, call, ItemKind.FILE, wish)))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = calls.get_for_change(store.reader(conn), call, ItemKind.FILE, call.id, needed=ItemRight.MOVE)
        trash.move_to_trash(conn, row, by=call.caller.id, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def copy(call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.CopyItem)
    if wish.name is not None:
        items.check_name(wish.name)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = calls.get_item(read, call.caller, ItemKind.FILE, call.id)
        calls.check_download(call, row)
        version = find_version(read, row, wish.version)
        parent = calls.get_target(read, call.caller, wish.parent.id)
        name = wish.name or row["name"]
        items.check_free(read, parent["id"], name)
        quota.check_space(read, parent["owner"], version["size"])
        now = call.store.now()
        made = duplicate(conn, row, version, parent, name, by=call.caller.id, now=now, event=events.COPY)
        return item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(made)

    return calls.answer(await call.store.write(txn), 201)


def duplicate(
    conn: Connection, row: Row, version: Row, parent: Row, name: str, *, by: int, now: int, event: str | None
) -> Row:
    """Create a file with the bytes of a version and the properties of its file.  The name must be free."""
    new = items.New(
        kind=ItemKind.FILE,
        name=name,
        size=version["size"],
        sha1=version["sha1"],
        description=row["description"],
        tags=row["tags"],
        content_created_at=row["content_created_at"],
        content_modified_at=row["content_modified_at"],
    )
    made = items.insert(conn, parent, new, by=by, now=now)
    made = add_version(conn, made, by=by, now=now, event=event)
    indexing.record_copied_content(conn, row, version, made)
    instances.copy(conn, row["id"], made["id"])
    return made


def add_version(
    conn: Connection,
    row: Row,
    *,
    by: int,
    now: int,
    event: str | None = events.UPLOAD,
    renamed: bool = False,
) -> Row:
    """Record the content in the file's row as its current version, with an event; return the updated row.

    `renamed`: the upload of this version also renamed the file.
    """
    number = engine.new_id(
        conn,
        "INSERT INTO version (file, sha1, size, name, created_at, created_by, renamed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (row["id"], row["sha1"], row["size"], row["name"], now, by, renamed),
    )
    conn.execute("UPDATE item SET version = ? WHERE id = ?", (number, row["id"]))
    row = items.find(conn, row["id"])
    if event is not None:
        service_events.record(conn, row, event, by=by, now=now)
    return row


def find_version(read: store.Read, row: Row, wire_id: str | None, *, trashed: bool = False) -> Row:
    """Return a version of a file, by default the current one.

    404 if there is no such version, or if it is in the trash and `trashed` is not set.
    """
    number = row["version"] if wire_id is None else calls.parse_id(wire_id)
    found = read("SELECT * FROM version WHERE id = ? AND file = ?", number, row["id"])
    if not found:
        raise problems.not_found("file_version", wire_id or "")
    if found[0]["trashed_at"] is not None and not trashed:
        raise problems.not_found("file_version", wire_id or "", code="trashed")
    return found[0]


def send(
    opened: store.Store, request: requests.Request, row: Row, version: Row, *, may_redirect: bool = False
) -> responses.Response:
    """Send a version or the requested range of it; with `may_redirect`, perhaps a redirect to the bucket."""
    size = version["size"]
    first, last, status = _range(request.headers.get("range"), size)
    if may_redirect and request.method == "GET" and (address := redirect_url(opened, row, version)):
        return responses.Response(status_code=302, headers={"Location": address, "Cache-Control": "no-store"})
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(last - first + 1),
        "Content-Disposition": _disposition(row),
        "Content-Type": _media_type(row),
    }
    if status == 206:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return BlobResponse(opened.blobs, version["sha1"], first, last, status=status, headers=headers)


def redirect_url(opened: store.Store, row: Row, version: Row) -> str | None:
    """Return a presigned URL of a version's bytes; None if this service has to send them itself.

    Watermarked files are always sent by the service, whatever clients do about the mark, and so are small
    ones.
    """
    if not opened.blobs.redirects_downloads or version["size"] < MIN_REDIRECT_BYTES:
        return None
    if opened.read(_WATERMARKED, json.dumps(tree_paths.line(row))):
        return None
    answer = {"content-disposition": _disposition(row), "content-type": _media_type(row)}
    return opened.blobs.presigned_url(version["sha1"], answer)


def _disposition(row: Row) -> str:
    return f"attachment; filename*=UTF-8''{quote(row['name'])}"


def _media_type(row: Row) -> str:
    return mimetypes.guess_type(row["name"])[0] or "application/octet-stream"


def _range(header: str | None, size: int) -> tuple[int, int, int]:
    """Return the first and last byte to send, and the status."""
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or found.group(0) == "bytes=-":
        return 0, size - 1, 200
    first, last = found.groups()
    if not first or int(first) >= size:
        raise problems.Refused(
            416,
            "requested_page_out_of_range",
            "There are no such bytes.",
            headers={"Content-Range": f"bytes */{size}"},
        )
    if last and int(last) < int(first):
        return 0, size - 1, 200
    return int(first), min(int(last), size - 1) if last else size - 1, 206


# Sent without a thread if it is in the page cache, or soon: a thread costs more than all else for a file.
SOON_BYTES = 64 * 1024


class BlobResponse(responses.Response):
    """Streams part of a blob; stops reading when the client disconnects."""

    def __init__(
        self,
        blob_store: blobs.BlobStore,
        sha1: str,
        first: int,
        last: int,
        *,
        status: int,
        headers: dict[str, str],
    ) -> None:
        self.status_code = status
        self.background = None
        self.body = b""
        self.init_headers(headers)
        self._blob_store = blob_store
        self._sha1 = sha1
        self._first = first
        self._end = last + 1

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        is_read = scope["method"] != "HEAD"
        body = await self._read_soon() if is_read else None
        if body is not None:
            self.body = body
            await super().__call__(scope, receive, send)
            return
        reader, data = await threads.run_sync(self._begin, is_read)
        if len(data) == self._end - self._first:
            reader.close()
            self.body = data
            await super().__call__(scope, receive, send)
            return
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel_on_disconnect, receive, nursery.cancel_scope)
                if not is_read or await self._stream(reader, data, send):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                nursery.cancel_scope.cancel()
        finally:
            reader.close()

    async def _read_soon(self) -> bytes | None:
        if self._end - self._first > SOON_BYTES:
            return None
        return await self._blob_store.read_soon(self._sha1, self._first, self._end)

    def _begin(self, is_read: bool) -> tuple[blobs.BlobReader, bytes]:
        """Open the blob, and read what is sent first; a failure is still an answer of its own."""
        reader = self._blob_store.open(self._sha1, self._first, self._end)
        try:
            return reader, self._read(reader, self._first) if is_read else b""
        except BaseException:
            reader.close()
            raise

    def _read(self, reader: blobs.BlobReader, at: int) -> bytes:
        try:
            return reader.read_exactly(min(blobs.CHUNK, self._end - at))
        except blobs.UnexpectedEnd:
            raise blobs.ContentLost(self._sha1) from None

    async def _stream(self, reader: blobs.BlobReader, data: bytes, send: types.Send) -> bool:
        """Send the bytes; return False, with the response incomplete, if they cannot be read any more."""
        at = self._first
        while data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            at += len(data)
            try:
                data = await threads.run_sync(self._read, reader, at) if at < self._end else b""
            except blobs.BlobsUnavailable as error:
                log.warning("download aborted, the content store is unavailable: %s", error.strerror)
                return False
            except FileNotFoundError:
                blobs.log_lost(blobs.ContentLost(self._sha1))
                return False
        return True


async def cancel_on_disconnect(receive: types.Receive, scope: trio.CancelScope) -> None:
    """Cancel the scope when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


routes = [
    Operation(
        "GET /files/{id}",
        get,
        "Get a file",
        models_items.File,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK, operations.IF_NONE_MATCH],
    ),
    Operation(
        "PUT /files/{id}",
        update,
        "Change a file",
        models_items.File,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=models_items.UpdateItem,
        errors=(409,),
    ),
    Operation(
        "DELETE /files/{id}", delete, "Put a file in the trash", status=204, headers=[operations.IF_MATCH]
    ),
    Operation(
        "POST /files/{id}/copy",
        copy,
        "Copy a file",
        models_items.File,
        status=201,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK],
        body=models_items.CopyItem,
        errors=(409,),
    ),
]
