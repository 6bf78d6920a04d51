"""Comments on files and replies to comments: list, create, change, delete.

Comments are searchable (a trigger maintains the index) and counted per file.

Rule: whoever may preview a file reads its comments; commenting needs a role that allows it.  Only the author
changes a comment; the author and the file's owner delete it.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import comments
from cmsfs.models.content import events as models_events
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events, webhook_triggers
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

_SELECT = """
  SELECT comment.*, account.id AS account, account.name, account.login
    FROM comment JOIN account ON account.id = comment.created_by
"""


def _shape(row: Row) -> dict[str, Any]:
    reply = row["reply_to"]
    about = ("file", row["item"]) if reply is None else ("comment", reply)
    return {
        "type": "comment",
        "id": str(row["id"]),
        "is_reply_comment": reply is not None,
        "message": comments.untagged(row["message"]),
        "tagged_message": row["message"],
        "created_by": {
            "type": "user",
            "id": str(row["account"]),
            "name": row["name"],
            "login": row["login"] or "",
        },
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "modified_at": item_serializer.to_timestamp(row["modified_at"]),
        "item": {"type": about[0], "id": str(about[1])},
    }


def _file(read: store.Read, call: calls.Call, wire_id: str) -> Row:
    return calls.get_item(read, call.caller, ItemKind.FILE, wire_id, needed=ItemRight.PREVIEW)


def _find(read: store.Read, call: calls.Call, wire_id: str) -> tuple[Row, Row]:
    """Return a comment and its file; 404 unless the caller may preview the file."""
    found = read(f"{_SELECT} WHERE comment.id = ?", calls.parse_id(wire_id))
    if not found or calls.find_item(read, call.caller, ItemKind.FILE, str(found[0]["item"])) is None:
        raise problems.not_found("comment", wire_id)
    return found[0], _file(read, call, str(found[0]["item"]))


def _message(wish: comments.NewComment | comments.UpdateComment) -> str:
    text = wish.tagged_message if wish.tagged_message is not None else wish.message
    if text is None or not text.strip():
        raise problems.invalid("message", "is missing", reason="missing_parameter")
    return text


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(comments.NewComment)
    message = _message(wish)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        if wish.item.type == "comment":
            replied, file = _find(read, call, wish.item.id)
            reply = replied["id"]
        else:
            file, reply = _file(read, call, wish.item.id), None
        calls.require(read, call.caller, file, ItemRight.COMMENT)
        now = call.store.now()
        made = conn.execute(
            "INSERT INTO comment (item, reply_to, message, created_by, created_at, modified_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING id",
            (file["id"], reply, message, call.caller.id, now),
        ).fetchone()
        details = {"comment_id": str(made["id"]), "message": comments.untagged(message)}
        events.record(conn, file, models_events.COMMENT, by=call.caller.id, now=now, details=details)
        return _shape(read(f"{_SELECT} WHERE comment.id = ?", made["id"])[0])

    return calls.answer(await call.store.write(txn), 201)


async def list_of_file(call: calls.Call) -> responses.Response:
    row = _file(call.store.read, call, call.id)
    page = paging.read_page(call.request.query_params)

    def run(read: store.Read) -> dict[str, Any]:
        total = read("SELECT count(*) AS n FROM comment WHERE item = ?", row["id"])[0]["n"]
        found = read(
            f"{_SELECT} WHERE item = ? ORDER BY comment.id LIMIT ? OFFSET ?",
            row["id"],
            page.limit,
            page.offset,
        )
        return {
            "total_count": total,
            "limit": page.limit,
            "offset": page.offset,
            "entries": [_shape(one) for one in found],
        }

    return calls.answer(await call.store.query(run))


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(_shape(_find(call.store.read, call, call.id)[0]))


async def update(call: calls.Call) -> responses.Response:
    message = _message(await call.body(comments.UpdateComment))

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row, file = _find(read, call, call.id)
        if row["created_by"] != call.caller.id:
            raise problems.Refused(403, "forbidden", "Somebody else wrote this comment.")
        now = call.store.now()
        conn.execute(
            "UPDATE comment SET message = ?, modified_at = ? WHERE id = ?", (message, now, row["id"])
        )
        details = {"comment_id": str(row["id"]), "message": comments.untagged(message)}
        webhook_triggers.enqueue(conn, "COMMENT.UPDATED", file, by=call.caller.id, now=now, details=details)
        return _shape(_find(read, call, call.id)[0])

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row, file = _find(read, call, call.id)
        if call.caller.id != row["created_by"] and ItemRight.OWN not in calls.rights(read, call.caller, file):
            raise problems.Refused(403, "forbidden", "Somebody else wrote this comment.")
        conn.execute("DELETE FROM comment WHERE id = ?", (row["id"],))
        by, now, details = call.caller.id, call.store.now(), {"comment_id": str(row["id"])}
        events.record(conn, file, models_events.UNCOMMENT, by=by, now=now, details=details)

    await call.store.write(txn)
    return responses.Response(status_code=204)


routes = [
    Operation(
        "POST /comments",
        create,
        "Comment on a file, or reply to a comment",
        comments.Comment,
        status=201,
        body=comments.NewComment,
        errors=(404,),
    ),
    Operation("GET /comments/{id}", get, "Get a comment", comments.Comment),
    Operation(
        "PUT /comments/{id}", update, "Change a comment", comments.Comment, body=comments.UpdateComment
    ),
    Operation(
        "DELETE /comments/{id}",
        delete,
        "Take back a comment",
        status=204,
        more="Replies to it are deleted, too.",
    ),
    Operation(
        "GET /files/{id}/comments",
        list_of_file,
        "List the comments on a file",
        comments.Comments,
        query=(operations.LIMIT, operations.OFFSET),
    ),
]
