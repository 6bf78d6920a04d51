"""What a retention policy is assigned to, and the files under it.

It is assigned to a folder, to the enterprise or to a metadata template.  With a template, `filter_fields`
narrows it to instances with one option, and `start_date_field` counts from a date of the instance in place
of the upload.

Rule: assignments of a policy that is not modifiable cannot be deleted.
"""

import json
from sqlite3 import Connection, IntegrityError, Row
from typing import Any

from starlette import responses

from cmsfs.models import items, names
from cmsfs.models import paging as models_paging
from cmsfs.models import retention as shapes
from cmsfs.service import (
    access,
    fields,
    markers,
    metadata_templates,
    operations,
    problems,
    protection,
    retention,
    store,
)
from cmsfs.service.kinds import Kind
from cmsfs.service.operations import Operation

_MINI = ("id", "retention_policy", "assigned_to")
# The public API's word for the start that is meant when none is named.
_UPLOAD = "upload_date"

_SELECT = """
  SELECT a.*, p.name AS policy_name, p.days, p.disposition_action, p.is_modifiable, u.name, u.login,
      t.uuid AS template
    FROM retention_assignment AS a JOIN retention_policy AS p ON p.id = a.policy
    JOIN user AS u ON u.id = a.assigned_by
    LEFT JOIN metadata_template AS t ON a.type = 'metadata_template' AND t.id = a.target
    WHERE p.enterprise = ?
"""


async def list_assignments(call: access.Call) -> responses.Response:
    """The assignments of the policy in the path."""
    access.require_admin(call.caller)
    params = call.request.query_params
    limit, after = markers.read_limit(params), markers.read_marker(params)
    policy = retention.get_policy(call.store.read, call.caller, call.id)
    sql = f"{_SELECT} AND a.policy = ? AND a.id > ?"
    args: list[Any] = [call.caller.enterprise, policy["id"], after]
    if kind := params.get("type"):
        sql += " AND a.type = ?"
        args.append(kind)
    rows, marker = markers.cut(call.store.read(f"{sql} ORDER BY a.id LIMIT ?", *args, limit + 1), limit)
    return access.answer(markers.envelope([_shown(call, one) for one in rows], limit, marker))


async def create(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    wish = await call.body(shapes.NewAssignment)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        policy = retention.get_policy(read, call.caller, wish.policy_id)
        if policy["retired_at"] is not None:
            raise problems.Refused(409, "conflict", "The policy is retired.")
        target, filters, start_key = _target(read, call.caller, wish)
        start = wish.start_date_field if start_key else None
        number = assign(
            *(conn, policy["id"], wish.assign_to.type, target),
            filters=filters,
            start=(start, start_key),
            by=call.caller.id,
            now=call.store.now(),
        )
        return _shown(call, _get(read, call.caller, str(number)))

    return access.answer(await call.store.write(txn), 201)


def assign(
    conn: Connection,
    policy: int,
    kind: str,
    target: int,
    *,
    filters: list[dict[str, str]] | None = None,
    start: tuple[str | None, str | None] = (None, None),
    by: int,
    now: int,
) -> int:
    """Retain what is there and what comes; 409 if that is assigned already."""
    try:
        cursor = conn.execute(
            "INSERT INTO retention_assignment (policy, type, target, filters, start_field, start_key,"
            " assigned_by, assigned_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (policy, kind, target, json.dumps(filters or []), *start, by, now),
        )
    except IntegrityError:
        raise problems.Refused(409, "conflict", "The policy is assigned to this already.") from None
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _target(
    read: store.Read, caller: access.Caller, wish: shapes.NewAssignment
) -> tuple[int, list[dict[str, str]], str | None]:
    """The number of what is to be retained, and what a template's instances must say; 404, 400."""
    to = wish.assign_to
    if to.type != "metadata_template":
        if wish.filter_fields or wish.start_date_field not in (None, _UPLOAD):
            raise problems.invalid("filter_fields", "needs a metadata template")
        if to.type == "enterprise":
            if to.id not in (None, "", str(caller.enterprise)):
                raise problems.not_found("enterprise", str(to.id))
            return caller.enterprise, [], None
        folder = access.find_enterprise_item(read, caller, Kind.FOLDER, to.id or "")
        if folder is None:
            raise problems.not_found("folder", to.id or "")
        return folder["id"], [], None
    template = metadata_templates.get_by_id(read, caller, to.id or "")
    by_id = {one["id"]: one for one in json.loads(template["fields"])}
    filters = []
    for one in wish.filter_fields or ():
        options = {option["id"]: option["key"] for option in by_id.get(one.field, {}).get("options", ())}
        if one.value not in options:
            raise problems.invalid(
                "filter_fields", "must name a field of the template and one of its options"
            )
        key = by_id[one.field]["key"]
        filters.append({"field": one.field, "value": one.value, "key": key, "text": options[one.value]})
    if wish.start_date_field in (None, _UPLOAD):
        return template["id"], filters, None
    start = by_id.get(wish.start_date_field or "", {})
    if start.get("type") != "date":
        raise problems.invalid("start_date_field", "must be a date field of the template")
    return template["id"], filters, start["key"]


async def get(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)
    return access.answer(_shown(call, _get(call.store.read, call.caller, call.id)))


async def delete(call: access.Call) -> responses.Response:
    access.require_admin(call.caller)

    def txn(conn: Connection) -> None:
        row = _get(store.reader(conn), call.caller, call.id)
        if not row["is_modifiable"]:
            raise retention.forbidden("The policy cannot be modified: what it is assigned to stays.")
        conn.execute("DELETE FROM retention_assignment WHERE id = ?", (row["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def files_under_retention(call: access.Call) -> responses.Response:
    """The files whose current version is under retention."""
    return await _retained(call, current=True)


async def file_versions_under_retention(call: access.Call) -> responses.Response:
    """The earlier versions under retention, each as its file with this version in it."""
    return await _retained(call, current=False)


async def _retained(call: access.Call, *, current: bool) -> responses.Response:
    access.require_admin(call.caller)
    assignment = _get(call.store.read, call.caller, call.id)["id"]
    params = call.request.query_params
    limit, after = markers.read_limit(params), markers.read_marker(params)
    now = call.store.now()

    def run(read: store.Read) -> dict[str, Any]:
        found = protection.retained(read, assignment, current=current, after=after, limit=limit + 1, now=now)
        rows, marker = markers.cut(found, limit)
        shaper = fields.Shaper(read, call.fields, mini=True)
        if current:
            return markers.envelope(shaper.items(rows), limit, marker)
        numbers = json.dumps([row["file"] for row in rows])
        files = read("SELECT * FROM item WHERE id IN (SELECT value FROM json_each(?))", numbers)
        by_id = {one["id"]: shaped for one, shaped in zip(files, shaper.items(files), strict=True)}
        entries = [by_id[row["file"]] | {"file_version": _version(row)} for row in rows]
        return markers.envelope(entries, limit, marker)

    return access.answer(await call.store.query(run))


def _version(row: Row) -> dict[str, Any]:
    return {"type": "file_version", "id": str(row["id"]), "sha1": row["sha1"]}


def _get(read: store.Read, caller: access.Caller, wire_id: str) -> Row:
    found = read(f"{_SELECT} AND a.id = ?", caller.enterprise, access.parse_id(wire_id))
    if not found:
        raise problems.not_found("retention_policy_assignment", wire_id)
    return found[0]


def _shown(call: access.Call, row: Row) -> dict[str, Any]:
    target = row["template"] or str(row["target"])
    filters = [{"field": one["field"], "value": one["value"]} for one in json.loads(row["filters"])]
    whole: dict[str, Any] = {
        "type": "retention_policy_assignment",
        "id": markers.number_id(call, row["id"]),
        "retention_policy": {
            "type": "retention_policy",
            "id": str(row["policy"]),
            "policy_name": row["policy_name"],
            "retention_length": shapes.INDEFINITE if row["days"] is None else row["days"],
            "disposition_action": row["disposition_action"],
        },
        "assigned_to": {
            "type": row["type"],
            "id": names.ROOT_ID if row["target"] == call.caller.root else target,
        },
        "filter_fields": filters,
        "start_date_field": row["start_field"] or _UPLOAD,
        "assigned_by": {
            "type": "user",
            "id": str(row["assigned_by"]),
            "name": row["name"],
            "login": row["login"] or "",
        },
        "assigned_at": fields.moment(row["assigned_at"]),
    }
    return markers.chosen(whole, _MINI, call.fields)


_PATH = "/retention_policy_assignments"
_PAGE = (*operations.MARKED, operations.FIELDS)

routes = [
    Operation(
        "GET /retention_policies/{id}/assignments",
        list_assignments,
        "List what a retention policy is assigned to",
        models_paging.MarkerPage[shapes.Assignment],
        query=[
            operations.choice("type", "Of one type.", "enterprise", "folder", "metadata_template"),
            *_PAGE,
        ],
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Assign a retention policy",
        shapes.Assignment,
        status=201,
        query=[operations.FIELDS],
        body=shapes.NewAssignment,
        errors=(404, 409),
    ),
    Operation(
        f"GET {_PATH}/{{id}}",
        get,
        "Get retention policy assignment",
        shapes.Assignment,
        query=[operations.FIELDS],
    ),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "Unassign a retention policy", status=204),
    *(
        Operation(
            f"GET {_PATH}/{{id}}/{word}_under_retention",
            handler,
            said,
            models_paging.MarkerPage[items.File],
            query=_PAGE,
        )
        for word, handler, said in (
            ("files", files_under_retention, "List the files under retention"),
            ("file_versions", file_versions_under_retention, "List the earlier versions under retention"),
        )
    ),
]
