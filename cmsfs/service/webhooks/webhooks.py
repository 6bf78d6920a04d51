"""Webhooks: list, create, get, change, delete.

A webhook belongs to one application and one of its users; nobody else sees it.  Events of its file, or of its
folder and everything below, are POSTed to its address (deliveries.py), signed with the application's keys.

Rule: an internal address is accepted only where the administrator allows it.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging
from cmsfs.models.enterprise import webhooks
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import webhook_triggers
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, KINDS, ItemKind, ItemStatus
from cmsfs.service.webhooks import receivers

# Per application and user; each event searches the webhooks on its parent folders.
MAX_WEBHOOKS = 1000

_SELECT = """
  SELECT webhook.*, item.kind, account.name, account.login FROM webhook JOIN item ON item.id = webhook.target
    JOIN account ON account.id = webhook.created_by WHERE webhook.app = ? AND webhook.created_by = ?
"""


def _get(read: store.Read, call: calls.Call) -> Row:
    sql = f"{_SELECT} AND webhook.id = ?"
    found = read(sql, call.caller.client_id, call.caller.id, calls.parse_id(call.id))
    if not found:
        raise problems.not_found("webhook", call.id)
    return found[0]


async def list_webhooks(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    limit = min(marker_pagination.read_limit(params), 200)
    sql = f"{_SELECT} AND webhook.id > ? ORDER BY webhook.id LIMIT ?"
    after = marker_pagination.read_marker(params)
    rows = call.store.read(sql, call.caller.client_id, call.caller.id, after, limit + 1)
    page, marker = marker_pagination.cut_page(rows, limit)
    return calls.answer(marker_pagination.envelope([_mini(row) for row in page], limit, marker))


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(webhooks.NewWebhook)
    _check_address(call, wish.address)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        target = _find_target(read, call, wish.target, wish.triggers)
        sql = "SELECT count(*) AS n FROM webhook WHERE app = ? AND created_by = ?"
        if read(sql, call.caller.client_id, call.caller.id)[0]["n"] >= MAX_WEBHOOKS:
            message = f"There are {MAX_WEBHOOKS} webhooks already."
            raise problems.Refused(403, "operation_limit_exceeded", message)
        made = conn.execute(
            "INSERT INTO webhook (app, target, address, triggers, created_by, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING id",
            (
                call.caller.client_id,
                target["id"],
                wish.address,
                json.dumps(wish.triggers),
                call.caller.id,
                call.store.now(),
            ),
        ).fetchall()
        if not made:
            raise _already_exists()
        return _shape(_one(read, call, made[0]["id"]))

    return calls.answer(await call.store.write(txn), 201)


def _one(read: store.Read, call: calls.Call, number: int) -> Row:
    return read(f"{_SELECT} AND webhook.id = ?", call.caller.client_id, call.caller.id, number)[0]


def _find_target(
    read: store.Read, call: calls.Call, wish: webhooks.WebhookTarget, triggers: list[str]
) -> Row:
    """Return the target item; 400 for the root folder, and for triggers that it does not support."""
    kind = KINDS[wish.type]
    row = calls.get_item(read, call.caller, kind, wish.id)
    if row["status"] == ItemStatus.ROOT:
        raise problems.invalid("target", "the root folder has no webhooks")
    known = webhooks.ON_FOLDERS if kind is ItemKind.FOLDER else webhooks.ON_FILES
    if strange := [one for one in triggers if one not in known]:
        raise problems.invalid("triggers", f"a {wish.type} has no {strange[0]}")
    return row


def _check_address(call: calls.Call, address: str) -> None:
    try:
        receivers.check_address(address, call.request.app.webhook_networks)
    except receivers.NotReachable as error:
        raise problems.invalid("address", str(error)) from None


def _already_exists() -> problems.Refused:
    return problems.Refused(409, "conflict", "The item has a webhook of this application and user already.")


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(_shape(_get(call.store.read, call)))


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(webhooks.UpdateWebhook)
    if wish.address is not None:
        _check_address(call, wish.address)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = _get(read, call)
        triggers = json.loads(row["triggers"]) if wish.triggers is None else wish.triggers
        kept = webhooks.WebhookTarget(type=KIND_NAMES[row["kind"]], id=str(row["target"]))
        target = row["target"]
        if wish.target is not None or wish.triggers is not None:
            target = _find_target(read, call, wish.target or kept, triggers)["id"]
        sql = "SELECT 1 FROM webhook WHERE target = ? AND app = ? AND created_by = ? AND id != ?"
        if read(sql, target, row["app"], row["created_by"], row["id"]):
            raise _already_exists()
        conn.execute(
            "UPDATE webhook SET target = ?, address = ?, triggers = ? WHERE id = ?",
            (target, wish.address or row["address"], json.dumps(triggers), row["id"]),
        )
        return _shape(_get(read, call))

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = _get(store.reader(conn), call)
        conn.execute("DELETE FROM webhook WHERE id = ?", (row["id"],))
        if "WEBHOOK.DELETED" in json.loads(row["triggers"]):
            source = {"id": str(row["id"]), "type": "webhook"}
            by, now = call.caller.id, call.store.now()
            webhook_triggers.enqueue_for_webhook(conn, row, "WEBHOOK.DELETED", source, by=by, now=now)

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _mini(row: Row) -> dict[str, Any]:
    return {
        "type": "webhook",
        "id": str(row["id"]),
        "target": {"type": KIND_NAMES[ItemKind(row["kind"])], "id": str(row["target"])},
    }


def _shape(row: Row) -> dict[str, Any]:
    return _mini(row) | {
        "created_by": {
            "type": "user",
            "id": str(row["created_by"]),
            "name": row["name"],
            "login": row["login"] or "",
        },
        "created_at": item_serializer.to_timestamp(row["created_at"]),
        "address": row["address"],
        "triggers": json.loads(row["triggers"]),
    }


_SHOWN = webhooks.Webhook

routes = [
    Operation(
        "GET /webhooks",
        list_webhooks,
        "List webhooks",
        paging.MarkerPage[webhooks.WebhookMini],
        query=operations.MARKED,
        more="Those of the application that asks and of its user.",
    ),
    Operation(
        "POST /webhooks",
        create,
        "Create a webhook",
        _SHOWN,
        status=201,
        body=webhooks.NewWebhook,
        errors=(404, 409),
    ),
    Operation("GET /webhooks/{id}", get, "Get a webhook", _SHOWN),
    Operation(
        "PUT /webhooks/{id}", update, "Change a webhook", _SHOWN, body=webhooks.UpdateWebhook, errors=(409,)
    ),
    Operation("DELETE /webhooks/{id}", delete, "Delete a webhook", status=204),
]
