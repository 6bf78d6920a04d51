"""Tasks on files: list, create, change, delete.

Whoever may comment on a file may create tasks.  A task stays while its file is in the trash, and its creator
and assignees see it even without access to the file; its item is null then.

Rule: only the creator changes a task; the creator and the file's owner delete it.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import events as models_events
from cmsfs.models.content import tasks
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import events
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind, ItemStatus

_OF_TASK = "SELECT * FROM task_assignment WHERE task = ? ORDER BY id"


def get_task(read: store.Read, call: calls.Call, wire_id: str) -> tuple[Row, Row | None]:
    """Return a task and its file, None if the caller does not see that; 404 unless they may see the task."""
    found = read("SELECT * FROM task WHERE id = ?", calls.parse_id(wire_id))
    if found:
        row = found[0]
        file = visible_file(read, call, row["file"])
        sql = "SELECT 1 FROM task_assignment WHERE task = ? AND account = ?"
        if file is not None or row["created_by"] == call.caller.id or read(sql, row["id"], call.caller.id):
            return row, file
    raise problems.not_found("task", wire_id)


def visible_file(read: store.Read, call: calls.Call, number: int) -> Row | None:
    """Return a task's file, if the caller may preview it and it is not in the trash."""
    file = calls.find_item(read, call.caller, ItemKind.FILE, str(number))
    if file is None or file["status"] != ItemStatus.ACTIVE:
        return None
    return file if ItemRight.PREVIEW in calls.rights(read, call.caller, file) else None


def check_owns(read: store.Read, call: calls.Call, row: Row, file: Row | None, *others: int) -> None:
    """Raise 403 unless the caller created the task, owns the file, or is one of these users."""
    if call.caller.id in (row["created_by"], *others):
        return
    if file is None or ItemRight.OWN not in calls.rights(read, call.caller, file):
        raise problems.Refused(403, "forbidden", "Somebody else set this task.")


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(tasks.NewTask)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        file = calls.get_item(read, call.caller, ItemKind.FILE, wish.item.id, needed=ItemRight.COMMENT)
        now = call.store.now()
        made = conn.execute(
            "INSERT INTO task (file, action, rule, message, due_at, created_by, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (
                file["id"],
                wish.action or "review",
                wish.completion_rule or "all_assignees",
                wish.message or "",
                None if wish.due_at is None else item_serializer.micros(wish.due_at),
                call.caller.id,
                now,
            ),
        ).fetchone()
        events.record(
            conn,
            file,
            models_events.TASK,
            by=call.caller.id,
            now=now,
            details={"task_id": str(made["id"])},
        )
        return shape(read, call, *get_task(read, call, str(made["id"])))

    return calls.answer(await call.store.write(txn), 201)


async def of_file(call: calls.Call) -> responses.Response:
    read = call.store.read
    file = calls.get_item(read, call.caller, ItemKind.FILE, call.id, needed=ItemRight.PREVIEW)
    rows = read("SELECT * FROM task WHERE file = ? ORDER BY id", file["id"])
    entries = [shape(read, call, row, file) for row in rows]
    return calls.answer({"total_count": len(entries), "entries": entries})


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(shape(call.store.read, call, *get_task(call.store.read, call, call.id)))


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(tasks.UpdateTask)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row, file = get_task(read, call, call.id)
        if row["created_by"] != call.caller.id:
            raise problems.Refused(403, "forbidden", "Somebody else set this task.")
        columns: dict[str, Any] = {}
        for name, column in (("action", "action"), ("completion_rule", "rule"), ("message", "message")):
            if (value := getattr(wish, name)) is not None:
                columns[column] = value
        if "due_at" in wish.model_fields_set:
            columns["due_at"] = None if wish.due_at is None else item_serializer.micros(wish.due_at)
        if columns.get("action", row["action"]) != row["action"]:
            sql = "SELECT 1 FROM task_assignment WHERE task = ? AND state != 'incomplete'"
            if read(sql, row["id"]):
                raise problems.invalid("action", "cannot change once somebody has resolved the task")
        if columns:
            parts = ", ".join(f"{name} = ?" for name in columns)
            conn.execute(f"UPDATE task SET {parts} WHERE id = ?", (*columns.values(), row["id"]))
            record_event(conn, call, row, file, models_events.TASK_UPDATE)
        return shape(read, call, *get_task(read, call, call.id))

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row, file = get_task(store.reader(conn), call, call.id)
        check_owns(store.reader(conn), call, row, file)
        conn.execute("DELETE FROM task WHERE id = ?", (row["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


def record_event(
    conn: Connection, call: calls.Call, task: Row, file: Row | None, event_type: str, **details: str
) -> None:
    """Record an event of a task for everybody who sees the file."""
    if file is not None:
        details_with_id = {"task_id": str(task["id"])} | details
        events.record(
            conn, file, event_type, by=call.caller.id, now=call.store.now(), details=details_with_id
        )


def shape(read: store.Read, call: calls.Call, row: Row, file: Row | None) -> dict[str, Any]:
    """Return a task as JSON."""
    assigned = read(_OF_TASK, row["id"])
    resolved = [one["state"] in ("approved", "completed") for one in assigned]
    is_completed = any(resolved) if row["rule"] == "any_assignee" else bool(resolved) and all(resolved)
    entries = [shape_assignment(read, row, one, file) for one in assigned]
    return {
        "type": "task",
        "id": str(row["id"]),
        "item": _file_mini(read, file),
        "due_at": _moment(row["due_at"]),
        "action": row["action"],
        "message": row["message"],
        "task_assignment_collection": {"total_count": len(entries), "entries": entries},
        "is_completed": is_completed,
        "created_by": _user(read, row["created_by"]),
        "created_at": _moment(row["created_at"]),
        "completion_rule": row["rule"],
    }


def shape_assignment(read: store.Read, task: Row, row: Row, file: Row | None) -> dict[str, Any]:
    """Return an assignment as JSON."""
    return {
        "type": "task_assignment",
        "id": str(row["id"]),
        "item": _file_mini(read, file),
        "assigned_to": _user(read, row["account"]),
        "message": row["message"],
        "completed_at": _moment(row["resolved_at"]),
        "assigned_at": _moment(row["assigned_at"]),
        "reminded_at": None,
        "resolution_state": row["state"],
        "assigned_by": _user(read, row["assigned_by"]),
    }


def _file_mini(read: store.Read, file: Row | None) -> dict[str, Any] | None:
    return None if file is None else item_serializer.ItemSerializer(read, mini=True).item(file)


def _user(read: store.Read, number: int) -> dict[str, Any]:
    return item_serializer.user_mini(read("SELECT * FROM account WHERE id = ?", number)[0])


def _moment(micros: int | None) -> str | None:
    return None if micros is None else item_serializer.to_timestamp(micros)


_SHOWN = tasks.FileTask

routes = [
    Operation("POST /tasks", create, "Create a task", _SHOWN, status=201, body=tasks.NewTask, errors=(404,)),
    Operation("GET /tasks/{id}", get, "Get a task", _SHOWN),
    Operation("PUT /tasks/{id}", update, "Change a task", _SHOWN, body=tasks.UpdateTask),
    Operation("DELETE /tasks/{id}", delete, "Delete a task", status=204),
    Operation("GET /files/{id}/tasks", of_file, "List the tasks on a file", tasks.Tasks),
]
