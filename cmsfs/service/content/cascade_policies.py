"""Cascade policies: list, create, get, delete, and apply again.

A policy may exist before the folder has the metadata: items below get it when the folder does.

Rule: the right to describe a folder includes its cascade policies; deleting a policy keeps the metadata.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging
from cmsfs.models.content import cascade_policies
from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import items
from cmsfs.service.events import events_admin
from cmsfs.service.metadata import cascades, templates
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind, ItemStatus

_SELECT = """
  SELECT p.*, t.key, t.enterprise, account.enterprise AS owner_enterprise FROM cascade_policy AS p
    JOIN metadata_template AS t ON t.id = p.template JOIN item ON item.id = p.folder
    JOIN account ON account.id = item.owner
"""
_INSTANCE = "SELECT * FROM metadata_instance WHERE item = ? AND template = ?"


def _folder(read: store.Read, call: calls.Call, wire_id: str, needed: ItemRight = ItemRight.SEE) -> Row:
    row = calls.get_item(read, call.caller, ItemKind.FOLDER, wire_id, needed=needed)
    if row["status"] == ItemStatus.ROOT:
        raise problems.Refused(403, "forbidden", "The root folder has no metadata.")
    return row


def _get(read: store.Read, call: calls.Call, needed: ItemRight = ItemRight.SEE) -> tuple[Row, Row]:
    """Return a policy and its folder; 404 unless the caller sees the folder."""
    found = read(f"{_SELECT} WHERE p.uuid = ?", call.id)
    if found:
        row = calls.find_item(read, call.caller, ItemKind.FOLDER, str(found[0]["folder"]))
        if row is not None and items.is_active(row):
            return found[0], _folder(read, call, str(row["id"]), needed)
    raise problems.not_found("metadata_cascade_policy", call.id)


def _instance(read: store.Read, folder: Row, template: int) -> Row:
    """Return the folder's own instance of the template; 404 if there is none."""
    found = read(_INSTANCE, folder["id"], template)
    if not found:
        raise problems.not_found("metadata instance", str(folder["id"]), code="instance_not_found")
    return found[0]


async def of_folder(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    folder = _folder(call.store.read, call, params.get("folder_id", ""))
    limit = marker_pagination.read_limit(params)
    after = marker_pagination.read_marker(params)
    wanted = params.get("owner_enterprise_id") or str(call.caller.enterprise)
    sql = f"{_SELECT} WHERE p.folder = ? AND p.id > ? AND account.enterprise = ? ORDER BY p.id LIMIT ?"
    rows = call.store.read(sql, folder["id"], after, calls.parse_id(wanted), limit + 1)
    page, marker = marker_pagination.cut_page(rows, limit)
    return calls.answer(marker_pagination.envelope([_shape(row) for row in page], limit, marker))


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(cascade_policies.NewCascadePolicy)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        folder = _folder(read, call, wish.folder_id, ItemRight.DESCRIBE)
        template = templates.get_template(read, call.caller, wish.scope, wish.template_key)
        found = conn.execute(
            "INSERT INTO cascade_policy (uuid, folder, template, created_by, created_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
            (str(chance.uuid4()), folder["id"], template["id"], call.caller.id, call.store.now()),
        ).fetchall()
        if not found:
            raise problems.Refused(409, "conflict", "This metadata of the folder cascades already.")
        for instance in read(_INSTANCE, folder["id"], template["id"]):
            cascades.fill(conn, folder, instance)
        row = read(f"{_SELECT} WHERE p.id = ?", found[0]["id"])[0]
        _log(conn, call, row, "METADATA_CASCADE_POLICY_CREATE")
        return _shape(row)

    return calls.answer(await call.store.write(txn), 201)


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(_shape(_get(call.store.read, call)[0]))


async def apply(call: calls.Call) -> responses.Response:
    wish = await call.body(cascade_policies.CascadeApplication)

    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row, folder = _get(read, call, ItemRight.DESCRIBE)
        instance = _instance(read, folder, row["template"])
        cascades.fill(conn, folder, instance)
        if wish.conflict_resolution == "overwrite":
            cascades.overwrite(conn, folder, instance)
        _log(conn, call, row, "METADATA_CASCADE_POLICY_APPLY")

    await call.store.write(txn)
    return responses.Response(status_code=202)


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row, _ = _get(store.reader(conn), call, ItemRight.DESCRIBE)
        conn.execute("DELETE FROM cascade_policy WHERE id = ?", (row["id"],))
        _log(conn, call, row, "METADATA_CASCADE_POLICY_DELETE")

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _shape(row: Row) -> dict[str, Any]:
    return {
        "type": "metadata_cascade_policy",
        "id": row["uuid"],
        "owner_enterprise": {"type": "enterprise", "id": str(row["owner_enterprise"])},
        "parent": {"type": "folder", "id": str(row["folder"])},
        "scope": templates.scope_of(row),
        "templateKey": row["key"],
    }


def _log(conn: Connection, call: calls.Call, row: Row, event_type: str) -> None:
    by, now = call.caller.id, call.store.now()
    events_admin.record(conn, row["owner_enterprise"], event_type, _shape(row), by=by, now=now)


_PATH = "/metadata_cascade_policies"
_SHOWN = cascade_policies.CascadePolicy

routes = [
    Operation(
        f"GET {_PATH}",
        of_folder,
        "List a folder's cascade policies",
        paging.MarkerPage[_SHOWN],
        query=[
            operations.Parameter("folder_id", "The folder.", required=True),
            operations.Parameter("owner_enterprise_id", "Of this enterprise; the caller's, if left out."),
            *operations.MARKED,
            operations.OFFSET,
        ],
        errors=(404,),
    ),
    Operation(
        f"POST {_PATH}",
        create,
        "Have a folder's metadata cascade",
        _SHOWN,
        status=201,
        body=cascade_policies.NewCascadePolicy,
        errors=(404, 409),
        more="What is below gets it at once, and what comes there later when it comes.",
    ),
    Operation(f"GET {_PATH}/{{id}}", get, "Get a cascade policy", _SHOWN),
    Operation(
        f"POST {_PATH}/{{id}}/apply",
        apply,
        "Apply a cascade policy again",
        status=202,
        body=cascade_policies.CascadeApplication,
    ),
    Operation(f"DELETE {_PATH}/{{id}}", delete, "End a cascade policy", status=204),
]
