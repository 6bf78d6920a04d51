"""Upload sessions: create, list, abort, commit; parts may arrive in any order.

Parts arrive through upload_parts.py and are stored separately (parts.py).  The commit assembles them; until
that is done it answers 202, and repeating the same commit continues it.  Then the file's rows are written as
for any upload.

Rule: a refused commit leaves the session unchanged.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models.content import upload_sessions, uploads
from cmsfs.runtime import chance, threads
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import quota
from cmsfs.service.renditions import indexing
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import parts, store
from cmsfs.service.uploads import direct_uploads, upload_parts

PART_SIZE = 8 * 1024 * 1024
# Files beyond 32 GiB get larger parts: more parts would make commit bodies and listings too large.
MAX_PARTS = 4096

DAY = 86_400 * 1_000_000
LIFE = 7 * DAY
# How long an expired session still answers 410.
REMEMBERED = 7 * DAY

# How long a commit waits for the assembly before it answers 202, in seconds.
COMMIT_WAIT_SECONDS = 10.0
RETRY_AFTER = "1"

MAX_COMMIT = 4 * 1024 * 1024

_PARTS = "SELECT * FROM upload_part WHERE session = ? ORDER BY start"


async def create_for_file(call: calls.Call) -> responses.Response:
    wish = await call.body(upload_sessions.NewSession)
    if wish.folder_id is None:
        raise _missing("folder_id", "missing_destination")
    if calls.parse_id(str(wish.folder_id)) is None:
        raise problems.invalid("folder_id", "is no id", code="invalid_folder_id")
    size = _read_size(wish)
    name = _read_name(wish)
    if name is None:
        raise _missing("file_name", "missing_file_name")
    try:
        parent = direct_uploads.check_new_file(call.store.read, call, name, str(wish.folder_id))
    except problems.Refused as refused:
        if refused.status == 404:
            refused.code = "invalid_parameter"
        raise
    owner = parent["owner"]
    return await _create(call, size, name, folder=int(wish.folder_id), file=None, owner=owner)


async def create_for_version(call: calls.Call) -> responses.Response:
    wish = await call.body(upload_sessions.NewSession)
    size = _read_size(wish)
    name = _read_name(wish)
    row = direct_uploads.check_new_version(call.store.read, call, call.id, name)
    return await _create(call, size, name, folder=None, file=row["id"], owner=row["owner"])


def _read_size(wish: upload_sessions.NewSession) -> int:
    size = wish.file_size
    if size is None:
        raise _missing("file_size", "missing_file_size")
    if isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 19:
        size = int(size)
    if type(size) is not int or not 0 <= size < 2**62:
        raise problems.invalid("file_size", "must be a number of bytes", code="invalid_file_size")
    if size < upload_sessions.MIN_FILE_SIZE:
        message = f"is less than {upload_sessions.MIN_FILE_SIZE} bytes: upload the file in one piece"
        raise problems.invalid("file_size", message, code="file_size_too_small")
    return size


def _read_name(wish: upload_sessions.NewSession) -> str | None:
    if wish.file_name is None or isinstance(wish.file_name, str):
        return wish.file_name
    raise problems.invalid("file_name", "must be text", code="item_name_invalid")


def _missing(name: str, code: str) -> problems.Refused:
    return problems.invalid(name, "is missing", code=code, reason="missing_parameter")


async def _create(
    call: calls.Call, size: int, name: str | None, *, folder: int | None, file: int | None, owner: int
) -> responses.Response:
    quota.check_upload(call.store.read, owner, size)
    number = chance.token_hex(16).upper()
    await threads.run_sync(call.store.parts.create_session, number)
    now = call.store.now()
    values = (number, call.caller.id, folder, file, name, size, part_size(size), now, now + LIFE, False)

    def txn(conn: Connection) -> tuple[Row, list[str]]:
        over = conn.execute(
            "SELECT id FROM upload_session WHERE expires_at <= ? AND EXISTS"
            " (SELECT 1 FROM upload_part WHERE session = upload_session.id)",
            (now,),
        ).fetchall()
        conn.executemany("DELETE FROM upload_part WHERE session = ?", [(row["id"],) for row in over])
        conn.execute("DELETE FROM upload_session WHERE expires_at <= ?", (now - REMEMBERED,))
        conn.execute(f"INSERT INTO upload_session VALUES ({', '.join('?' * len(values))})", values)
        made = conn.execute("SELECT * FROM upload_session WHERE id = ?", (number,)).fetchone()
        return made, [row["id"] for row in over]

    row, over = await call.store.write(txn)
    await call.store.parts.remove(*over)
    return calls.answer(_session(call, row, 0), 201)


def part_size(size: int) -> int:
    """The part size for a file of this size."""
    found = PART_SIZE
    while size > found * MAX_PARTS:
        found *= 2
    return found


def _session(call: calls.Call, row: Row, arrived: int) -> dict[str, Any]:
    url = direct_uploads.upload_url(call, f"files/upload_sessions/{row['id']}")
    return {
        "type": "upload_session",
        "id": row["id"],
        "session_expires_at": item_serializer.to_timestamp(row["expires_at"]),
        "part_size": row["part_size"],
        "total_parts": -(-row["size"] // row["part_size"]),
        "num_parts_processed": arrived,
        "session_endpoints": {
            "upload_part": url,
            "commit": f"{url}/commit",
            "abort": url,
            "list_parts": f"{url}/parts",
            "status": url,
            "plan": f"{url}/plan",
            "log_event": f"{url}/log",
        },
    }


async def status(call: calls.Call) -> responses.Response:
    row = upload_parts.find(call.store.read, call)
    arrived = call.store.read("SELECT count(*) AS n FROM upload_part WHERE session = ?", row["id"])[0]["n"]
    return calls.answer(_session(call, row, arrived))


async def list_parts(call: calls.Call) -> responses.Response:
    row = upload_parts.find(call.store.read, call)
    page = paging.read_page(call.request.query_params)
    found = call.store.read(_PARTS, row["id"])
    shown = [upload_parts.serialize(one) for one in found[page.offset : page.offset + page.limit]]
    order = [{"by": "offset", "direction": "ASC"}]
    return calls.answer(
        {
            "entries": shown,
            "total_count": len(found),
            "limit": page.limit,
            "offset": page.offset,
            "order": order,
        }
    )


async def log_event(call: calls.Call) -> responses.Response:
    upload_parts.find(call.store.read, call)
    return responses.Response(status_code=204)


async def abort(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        # The public API's own clients also abort after a commit; then there is nothing to delete.
        if not upload_parts.find(store.reader(conn), call, committed=True)["committed"]:
            conn.execute("DELETE FROM upload_session WHERE id = ?", (call.id,))

    await call.store.write(txn)
    await call.store.parts.remove(call.id)
    return responses.Response(status_code=204)


async def commit(call: calls.Call) -> responses.Response:
    session = upload_parts.find(call.store.read, call)
    name, expected = upload_parts.read_digest(call)
    if name != "sha":
        raise problems.invalid("digest", "must be the SHA-1 of the whole file", code="bad_digest")
    wish = upload_sessions.Commit.model_validate_json(await calls.read_body(call.request, MAX_COMMIT))
    found = call.store.read(_PARTS, session["id"])
    _check_parts(session, wish, found)
    _check_commit(call.store.read, call, session, wish)
    sizes = [(row["file"], row["size"]) for row in found]
    assembly = call.store.parts.assembly(session["id"], call.store.blobs, sizes)
    if assembly.is_busy or not await _advance(call, session, assembly):
        return _processing()
    actual = await assembly.sha1()
    if bytes.fromhex(actual) != expected:
        message = f"The parts together have the SHA-1 {actual}, which is not what the digest says."
        raise problems.Refused(400, "bad_digest", message)
    try:
        await assembly.keep()
    except FileNotFoundError:
        # It was idle for so long that another process swept it at startup.
        call.store.parts.drop_assembly(session["id"])
        return _processing()
    inspection = await indexing.first_look(assembly.incoming.head, session["size"])
    content = direct_uploads.UploadedContent(actual, session["size"], inspection)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        upload_parts.find(read, call)
        row = _write_rows(conn, call, session, wish, content)
        conn.execute("DELETE FROM upload_part WHERE session = ?", (session["id"],))
        conn.execute("UPDATE upload_session SET committed = 1 WHERE id = ?", (session["id"],))
        return direct_uploads.result(read, call, row)

    answer = await call.store.write(txn)
    await call.store.parts.remove(session["id"])
    return calls.answer(answer, 201)


def _processing() -> responses.Response:
    return responses.Response(status_code=202, headers={"Retry-After": RETRY_AFTER})


def _check_parts(session: Row, wish: upload_sessions.Commit, found: list[Row]) -> None:
    """400 unless the commit lists exactly the parts that have arrived, in any order."""
    named = {one.part_id: one for one in wish.parts}
    agree = len(named) == len(wish.parts) == len(found) == -(-session["size"] // session["part_size"])
    for row in found:
        one = named.get(row["id"])
        agree = agree and one is not None and (one.offset, one.size) == (row["start"], row["size"])
        agree = agree and (one is None or one.sha1 is None or one.sha1.lower() == row["sha1"])
    if not agree:
        message = "The parts that the commit names are not those that have arrived, or some are missing."
        raise problems.Refused(400, "parts_mismatch", message)


def _check_commit(read: store.Read, call: calls.Call, session: Row, wish: upload_sessions.Commit) -> None:
    """Check early what would be refused after the assembly."""
    name = wish.attributes.name or session["name"]
    if session["file"] is None:
        target = direct_uploads.check_new_file(read, call, name, str(session["folder"]))
    else:
        target = direct_uploads.check_new_version(read, call, str(session["file"]), name)
    quota.check_upload(read, target["owner"], session["size"])


async def _advance(call: calls.Call, session: Row, assembly: parts.Assembly) -> bool:
    try:
        return await assembly.advance(COMMIT_WAIT_SECONDS)
    except OSError:
        call.store.parts.drop_assembly(session["id"])
        upload_parts.find(call.store.read, call)  # if the upload was aborted meanwhile, this raises 404
        raise


def _write_rows(
    conn: Connection,
    call: calls.Call,
    session: Row,
    wish: upload_sessions.Commit,
    content: direct_uploads.UploadedContent,
) -> Row:
    attributes = wish.attributes
    name = attributes.name or session["name"]
    if session["file"] is None:
        return direct_uploads.add_file(
            conn,
            call=call,
            content=content,
            parent_id=str(session["folder"]),
            name=name,
            content_created_at=attributes.content_created_at,
            content_modified_at=attributes.content_modified_at,
            description=attributes.description or "",
        )
    more: dict[str, Any] = {} if attributes.description is None else {"description": attributes.description}
    return direct_uploads.add_content(
        conn,
        call=call,
        content=content,
        file_id=str(session["file"]),
        name=name,
        content_modified_at=attributes.content_modified_at,
        **more,
    )


_PATH = "/files/upload_sessions"

routes = [
    Operation(
        f"POST {_PATH}",
        create_for_file,
        "Begin the upload of a new file in parts",
        upload_sessions.UploadSession,
        status=201,
        body=upload_sessions.NewSession,
        errors=(404, 409),
    ),
    Operation(
        "POST /files/{id}/upload_sessions",
        create_for_version,
        "Begin the upload of a new version in parts",
        upload_sessions.UploadSession,
        status=201,
        headers=[operations.IF_MATCH],
        body=upload_sessions.NewSession,
        errors=(409,),
    ),
    Operation(
        f"GET {_PATH}/{{id}}", status, "Get an upload session", upload_sessions.UploadSession, errors=(410,)
    ),
    Operation(f"DELETE {_PATH}/{{id}}", abort, "Give an upload session up", status=204, errors=(410,)),
    Operation(
        f"GET {_PATH}/{{id}}/parts",
        list_parts,
        "List the parts that have arrived",
        models_paging.OffsetPage[upload_sessions.Part],
        query=operations.PAGED,
        errors=(410,),
    ),
    Operation(
        f"POST {_PATH}/{{id}}/commit",
        commit,
        "Make a file of the parts",
        uploads.UploadResult,
        status=201,
        query=[operations.FIELDS],
        headers=[upload_parts.DIGEST, operations.IF_MATCH],
        body=upload_sessions.Commit,
        also={202: None},
        errors=(409, 410),
    ),
    Operation(
        f"POST {_PATH}/{{id}}/log",
        log_event,
        "Tell how an upload went",
        status=204,
        errors=(410,),
        more="Accepted for compatibility; the service does nothing with it.",
    ),
    *upload_parts.routes,
]
