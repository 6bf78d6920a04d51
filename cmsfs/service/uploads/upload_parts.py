"""Receives the parts of a chunked upload, and plans which parts the client can skip.

Called through the routes here and by upload_sessions.py, which creates and ends the sessions.

Rule: a part is durable before it is acknowledged, and never replaced.
"""

import base64
import binascii
import hashlib
import re
import sqlite3
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import partial
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import upload_sessions
from cmsfs.runtime import chance, threads
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.storage import blobs, store
from cmsfs.service.storage.kinds import ItemKind

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_DIGEST = re.compile(r"(sha|sha-512)=([A-Za-z0-9+/=_-]+)", re.IGNORECASE)
_HASHES: dict[str, Callable[[], Any]] = {
    "sha": lambda: hashlib.sha1(usedforsecurity=False),
    "sha-512": hashlib.sha512,
}


def find(read: store.Read, call: calls.Call, *, committed: bool = False) -> Row:
    """The request's session.

    404 if there is none, or if it is committed and `committed` is false; 403 if it is another user's; 410 if
    it has expired.
    """
    found = read("SELECT * FROM upload_session WHERE id = ?", call.id)
    if not found or (found[0]["committed"] and not committed):
        raise problems.not_found("upload_session", call.id)
    if found[0]["account"] != call.caller.id:
        message = "Somebody else has begun this upload."
        raise problems.Refused(403, "access_denied_insufficient_permissions", message)
    if found[0]["expires_at"] <= call.store.now():
        raise problems.Refused(410, "session_expired", "The upload was begun more than seven days ago.")
    return found[0]


def serialize(row: Row) -> dict[str, Any]:
    return {"part_id": row["id"], "offset": row["start"], "size": row["size"], "sha1": row["sha1"]}


async def put_part(call: calls.Call) -> responses.Response:
    session = find(call.store.read, call)
    offset, size = _read_range(call, session)
    name, expected = read_digest(call)
    _check_not_received(call.store.read, session, offset)
    check = _HASHES[name]() if name != "sha" else None
    async with call.store.blobs.receive() as incoming:
        arrived = 0
        async with aclosing(call.request.stream()) as chunks:
            async for chunk in chunks:
                arrived += len(chunk)
                if arrived > size:
                    break
                if check is not None:
                    check.update(chunk)
                await incoming.write(chunk)
        if arrived != size:
            raise problems.invalid("content-range", f"names {size} bytes, but other bytes came")
        sha1 = await incoming.sha1()
        if (check.digest() if check is not None else bytes.fromhex(sha1)) != expected:
            message = "The part does not have the digest that its header says."
            raise problems.Refused(412, "precondition_failed", message)
        row = await _add_part(call, session, offset, size, sha1, incoming)
    return calls.answer({"part": serialize(row)})


def _read_range(call: calls.Call, session: Row) -> tuple[int, int]:
    """The offset and size of a part; 416 if it is not one of the session's parts."""
    text = call.request.headers.get("content-range")
    if text is None:
        raise problems.invalid("content-range", "is missing", reason="missing_parameter")
    found = _RANGE.fullmatch(text.strip())
    if found is not None:
        first, last, total = map(int, found.groups())
        end = min(first + session["part_size"], session["size"])
        if total == session["size"] and first % session["part_size"] == 0 and first < end == last + 1:
            return first, end - first
    message = f"No part of this session has the range {text[:100]!r}."
    raise problems.Refused(416, "invalid_range", message)


def read_digest(call: calls.Call) -> tuple[str, bytes]:
    """The name and the value of the `digest` header."""
    text = call.request.headers.get("digest")
    if text is None:
        raise problems.invalid("digest", "is missing", reason="missing_parameter")
    found = _DIGEST.fullmatch(text.strip())
    if found is not None:
        try:
            return found[1].lower(), base64.b64decode(found[2], validate=True)
        except binascii.Error:
            pass
    raise problems.invalid("digest", "must be sha= and a SHA-1 in base64", code="bad_digest")


def _check_not_received(read: store.Read, session: Row, offset: int) -> None:
    if read("SELECT 1 FROM upload_part WHERE session = ? AND start = ?", session["id"], offset):
        raise _already_received()


def _already_received() -> problems.Refused:
    return problems.Refused(409, "range_overlaps_existing_part", "This part has arrived already.")


async def _add_part(
    call: calls.Call, session: Row, offset: int, size: int, sha1: str, incoming: blobs.IncomingBlob
) -> Row:
    """Store the part and write its row; 409 if another request stored it first."""
    number = chance.token_hex(8).upper()
    try:
        await threads.run_sync(call.store.parts.keep, session["id"], number, incoming)
    except FileNotFoundError:
        raise problems.not_found("upload_session", call.id) from None

    def txn(conn: Connection) -> Row:
        find(store.reader(conn), call)
        values = (session["id"], offset, number, size, sha1, number)
        try:
            conn.execute("INSERT INTO upload_part VALUES (?, ?, ?, ?, ?, ?)", values)
        except sqlite3.IntegrityError:
            raise _already_received() from None
        found = "SELECT * FROM upload_part WHERE session = ? AND start = ?"
        row: Row = conn.execute(found, (session["id"], offset)).fetchone()
        return row

    try:
        return await call.store.write(txn)
    except problems.Refused:
        await threads.run_sync(call.store.parts.drop_part, session["id"], number)
        raise


async def plan(call: calls.Call) -> responses.Response:
    session = find(call.store.read, call)
    wish = await call.body(upload_sessions.PartsPlan)
    hits: list[dict[str, Any]] = []
    misses: list[dict[str, Any]] = []
    for one in wish.parts:
        row = await _find_matching_part(call, session, one)
        (misses if row is None else hits).append(one.body() | ({} if row is None else {"part_id": row["id"]}))
    return calls.answer({"upload_session_id": session["id"], "hits": hits, "misses": misses})


async def _find_matching_part(
    call: calls.Call, session: Row, wish: upload_sessions.PlannedPart
) -> Row | None:
    end = min(wish.offset + session["part_size"], session["size"])
    if wish.offset % session["part_size"] or wish.offset + wish.size != end:
        return None
    found = call.store.read(
        "SELECT * FROM upload_part WHERE session = ? AND start = ?", session["id"], wish.offset
    )
    if found:
        stored = partial(call.store.parts.open, session["id"], found[0]["file"], wish.size)
        same = await threads.run_sync(_sha512, stored)
        return found[0] if same == wish.sha512.lower() else None
    if session["file"] is None:
        return None
    row = calls.get_item(
        call.store.read, call.caller, ItemKind.FILE, str(session["file"]), needed=ItemRight.EDIT
    )
    if row["size"] < end:
        return None
    opener = partial(call.store.blobs.open, row["sha1"], wish.offset, end)
    if await threads.run_sync(_sha512, opener) != wish.sha512.lower():
        return None
    async with call.store.blobs.receive() as incoming:
        await threads.run_sync(_append, incoming, opener, wish.size)
        sha1 = await incoming.sha1()
        return await _add_part(call, session, wish.offset, wish.size, sha1, incoming)


def _sha512(opener: Callable[[], blobs.BlobReader]) -> str:
    found = hashlib.sha512()
    with closing(opener()) as reader:
        while data := reader.read(blobs.CHUNK):
            found.update(data)
    return found.hexdigest()


def _append(incoming: blobs.IncomingBlob, opener: Callable[[], blobs.BlobReader], size: int) -> None:
    with closing(opener()) as reader:
        incoming.append_from(reader, size)


DIGEST = operations.header("digest", "`sha=` and the SHA-1 in base64; of a part also `sha-512=`.")
_CONTENT_RANGE = operations.header("content-range", "`bytes FIRST-LAST/SIZE`: where the part belongs.")

routes = [
    Operation(
        "PUT /files/upload_sessions/{id}",
        put_part,
        "Upload a part",
        upload_sessions.UploadedPart,
        headers=[DIGEST, _CONTENT_RANGE],
        body=operations.BYTES,
        errors=(409, 410, 412, 416),
    ),
    Operation(
        "POST /files/upload_sessions/{id}/plan",
        plan,
        "Ask which parts need not be sent",
        upload_sessions.PlanAnswer,
        body=upload_sessions.PartsPlan,
        errors=(409, 410, 500),
        more="Which parts need not be sent: those that arrived, and those that the file has in that place.",
    ),
]
