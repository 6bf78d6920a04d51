"""Assignments of tasks to users: list, create, resolve, delete.

Rule: a task is assigned to users who see the file, once each; only the assignee resolves it, and a resolved
assignment stays as long as the task.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import events as models_events
from cmsfs.models.content import tasks as models_tasks
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api.operations import Operation
from cmsfs.service.storage import store
from cmsfs.service.tasks import tasks


def _get(read: store.Read, call: calls.Call, wire_id: str) -> tuple[Row, Row, Row | None]:
    """Return an assignment, its task and its file; 404 unless the caller may see the task."""
    found = read("SELECT * FROM task_assignment WHERE id = ?", calls.parse_id(wire_id))
    if found:
        try:
            return found[0], *tasks.get_task(read, call, str(found[0]["task"]))
        except problems.Refused:
            pass
    raise problems.not_found("task_assignment", wire_id)


async def of_task(call: calls.Call) -> responses.Response:
    read = call.store.read
    task, file = tasks.get_task(read, call, call.id)
    rows = read("SELECT * FROM task_assignment WHERE task = ? ORDER BY id", task["id"])
    entries = [tasks.shape_assignment(read, task, row, file) for row in rows]
    return calls.answer({"total_count": len(entries), "entries": entries})


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(models_tasks.NewAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        task, file = tasks.get_task(read, call, wish.task.id)
        if file is None:
            raise problems.not_found("file", str(task["file"]))
        calls.require(read, call.caller, file, ItemRight.COMMENT)
        user = _assignee(read, wish.assign_to)
        view = access_rights.View(read, access_rights.NotifiedUser(user["id"]))
        if ItemRight.PREVIEW not in view.rights(file):
            raise problems.Refused(403, "forbidden", "A task is assigned only to who may look into the file.")
        found = conn.execute(
            "INSERT INTO task_assignment (task, account, message, assigned_by, assigned_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING *",
            (task["id"], user["id"], task["message"], call.caller.id, call.store.now()),
        ).fetchall()
        if not found:
            raise problems.Refused(409, "conflict", "The task is assigned to this user already.")
        _record_event(conn, call, task, file, found[0], models_events.TASK_ASSIGNED)
        return tasks.shape_assignment(read, task, found[0], file)

    return calls.answer(await call.store.write(txn), 201)


def _assignee(read: store.Read, wish: models_tasks.Assignee) -> Row:
    if wish.id is None and wish.login is None:
        raise problems.invalid("assign_to", "id or login is required", reason="missing_parameter")
    sql = "SELECT * FROM account WHERE enterprise != 0"
    if wish.id is not None:
        found = read(f"{sql} AND id = ?", calls.parse_id(wish.id))
    else:
        found = read(f"{sql} AND lower(login) = lower(?)", wish.login)
    if not found:
        raise problems.not_found("user", wish.id or wish.login or "")
    return found[0]


async def get(call: calls.Call) -> responses.Response:
    row, task, file = _get(call.store.read, call, call.id)
    return calls.answer(tasks.shape_assignment(call.store.read, task, row, file))


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(models_tasks.UpdateAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row, task, file = _get(read, call, call.id)
        if row["account"] != call.caller.id:
            raise problems.Refused(403, "forbidden", "The task is assigned to somebody else.")
        state = wish.resolution_state or row["state"]
        if state not in models_tasks.STATES[task["action"]]:
            words = ", ".join(models_tasks.STATES[task["action"]])
            raise problems.invalid("resolution_state", f"must be one of {words} for such a task")
        message = row["message"] if wish.message is None else wish.message
        when = row["resolved_at"]
        if state != row["state"]:
            when = None if state == "incomplete" else call.store.now()
        conn.execute(
            "UPDATE task_assignment SET message = ?, state = ?, resolved_at = ? WHERE id = ?",
            (message, state, when, row["id"]),
        )
        row, task, file = _get(read, call, call.id)
        _record_event(conn, call, task, file, row, models_events.TASK_ASSIGNMENT_UPDATE)
        return tasks.shape_assignment(read, task, row, file)

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row, task, file = _get(read, call, call.id)
        tasks.check_owns(read, call, task, file, row["assigned_by"], row["account"])
        if row["state"] != "incomplete":
            details = "The assignment is resolved; it can be opened again, or the task be deleted."
            raise problems.Refused(403, "forbidden", details)
        conn.execute("DELETE FROM task_assignment WHERE id = ?", (row["id"],))
        _record_event(conn, call, task, file, row, models_events.TASK_ASSIGNMENT_DELETE)

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _record_event(
    conn: Connection, call: calls.Call, task: Row, file: Row | None, row: Row, event_type: str
) -> None:
    details = {"task_assignment_id": str(row["id"]), "assigned_to": str(row["account"])}
    tasks.record_event(conn, call, task, file, event_type, **details)


_SHOWN = models_tasks.TaskAssignment

routes = [
    Operation(
        "GET /tasks/{id}/assignments", of_task, "List a task's assignments", models_tasks.TaskAssignments
    ),
    Operation(
        "POST /task_assignments",
        create,
        "Assign a task",
        _SHOWN,
        status=201,
        body=models_tasks.NewAssignment,
        errors=(404, 409),
    ),
    Operation("GET /task_assignments/{id}", get, "Get a task assignment", _SHOWN),
    Operation(
        "PUT /task_assignments/{id}",
        update,
        "Resolve a task assignment",
        _SHOWN,
        body=models_tasks.UpdateAssignment,
    ),
    Operation("DELETE /task_assignments/{id}", delete, "Take back a task assignment", status=204),
]
