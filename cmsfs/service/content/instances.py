"""Metadata instances on files and folders: list, create, change by JSON Patch, delete.

Rule: whoever sees an item sees its instances; changing them is a separate right; a root has none.
"""

import json
from functools import partial
from sqlite3 import Connection, IntegrityError, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import metadata
from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api.operations import Operation
from cmsfs.service.events import webhook_triggers
from cmsfs.service.metadata import cascades, metadata_query, skill_cards, templates
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus


async def list_instances(kind: ItemKind, call: calls.Call) -> responses.Response:
    row = _item(call.store.read, call, kind)
    found = metadata_query.attached(call.store.read, [row]).get(row["id"], [])
    return calls.answer({"entries": [metadata_query.serialize_instance(one) for one in found], "limit": 100})


async def get(kind: ItemKind, call: calls.Call) -> responses.Response:
    row = _item(call.store.read, call, kind)
    return calls.answer(metadata_query.serialize_instance(_instance(call.store.read, call, row)[1]))


async def create(kind: ItemKind, call: calls.Call) -> responses.Response:
    wish = metadata.NewInstance.validate_json(await calls.read_body(call.request) or b"{}")

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = _item(read, call, kind, needed=ItemRight.DESCRIBE)
        template = _template(read, call)
        insert(conn, row["id"], template, templates.checked(template, wish))
        cascades.begin(conn, row, _instance(read, call, row)[1])
        return _serialize_and_notify(conn, call, row, "CREATED")

    return calls.answer(await call.store.write(txn), 201)


def insert(conn: Connection, item: int, template: Row, data: dict[str, Any]) -> None:
    """Add an instance with validated values to an item; 409 if it has one of this template."""
    try:
        conn.execute(
            "INSERT INTO metadata_instance (uuid, item, template, data, type_version) VALUES (?, ?, ?, ?, ?)",
            (
                str(chance.uuid4()),
                item,
                template["id"],
                json.dumps(data, ensure_ascii=False),
                template["version"],
            ),
        )
    except IntegrityError:
        raise problems.Refused(409, "tuple_already_exists", "The item has this metadata already.") from None


def copy(conn: Connection, source: int, target: int) -> None:
    """Copy an item's instances to its copy, where their templates ask for it."""
    found = conn.execute(
        "SELECT m.*, t.version AS now FROM metadata_instance AS m JOIN metadata_template AS t"
        " ON t.id = m.template WHERE m.item = ? AND t.copies = 1",
        (source,),
    ).fetchall()
    conn.executemany(
        "INSERT INTO metadata_instance (uuid, item, template, data, type_version) VALUES (?, ?, ?, ?, ?)"
        # Cascaded metadata may have added the instance already; the copied one takes precedence.
        " ON CONFLICT (item, template) DO UPDATE SET data = excluded.data",
        [(str(chance.uuid4()), target, one["template"], one["data"], one["now"]) for one in found],
    )


async def update(kind: ItemKind, call: calls.Call) -> responses.Response:
    operations = metadata.Patch.validate_json(await calls.read_body(call.request))

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = _item(read, call, kind, needed=ItemRight.DESCRIBE)
        template, instance = _instance(read, call, row)
        data = _apply_patch(template, json.loads(instance["data"]), operations)
        protection.record_coverage_before_metadata_change(conn, row["id"])
        conn.execute(
            "UPDATE metadata_instance SET data = ?, version = version + 1, type_version = ? WHERE id = ?",
            (json.dumps(data, ensure_ascii=False), template["version"], instance["id"]),
        )
        cascades.follow(conn, row, _instance(read, call, row)[1], instance["data"])
        return _serialize_and_notify(conn, call, row, "UPDATED")

    return calls.answer(await call.store.write(txn))


async def delete(kind: ItemKind, call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = _item(store.reader(conn), call, kind, needed=ItemRight.DESCRIBE)
        _, instance = _instance(store.reader(conn), call, row)
        protection.record_coverage_before_metadata_change(conn, row["id"])
        _serialize_and_notify(conn, call, row, "DELETED")
        conn.execute("DELETE FROM metadata_instance WHERE id = ?", (instance["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _serialize_and_notify(conn: Connection, call: calls.Call, row: Row, change: str) -> dict[str, Any]:
    """Return the instance as JSON, and queue the webhooks for its change."""
    shown = metadata_query.serialize_instance(_instance(store.reader(conn), call, row)[1])
    details = {"instance_id": shown["$id"], "scope": shown["$scope"], "template": shown["$template"]}
    trigger = f"METADATA_INSTANCE.{change}"
    by, now = call.caller.id, call.store.now()
    webhook_triggers.enqueue(conn, trigger, row, by=by, now=now, details=details)
    return shown


def _apply_patch(template: Row, data: dict[str, Any], operations: list[metadata.PatchStep]) -> dict[str, Any]:
    """Apply a JSON Patch; 409 if a test fails or a path does not exist, 400 for invalid values."""
    if template["key"] == skill_cards.KEY and template["enterprise"] is None:
        return skill_cards.patched(data, operations)
    for one in operations:
        key = _key(one.path)
        value: Any = one.value
        if one.op in ("move", "copy"):
            source = _key(one.from_ or "")
            if source not in data:
                raise _patch_failed(f"There is no {source}.")
            value = data.pop(source) if one.op == "move" else data[source]
        elif one.op in ("remove", "replace", "test") and key not in data:
            raise _patch_failed(f"There is no {key}.")
        if one.op == "remove":
            del data[key]
        elif one.op != "test":
            data[key] = value
        elif value != data[key] and templates.checked(template, {key: value})[key] != data[key]:
            raise _patch_failed(f"{key} has another value.")
    return templates.checked(template, data)


def _key(path: str) -> str:
    """Return the key of a JSON pointer; instances are flat."""
    if not path.startswith("/") or "/" in path[1:]:
        raise problems.invalid("path", f"{path!r} names no value")
    return path[1:].replace("~1", "/").replace("~0", "~")


def _patch_failed(message: str) -> problems.Refused:
    return problems.Refused(409, "failed_json_patch_application", message)


def _item(read: store.Read, call: calls.Call, kind: ItemKind, *, needed: ItemRight = ItemRight.SEE) -> Row:
    row = calls.get_item(read, call.caller, kind, call.id, needed=needed)
    if row["status"] == ItemStatus.ROOT:
        raise problems.Refused(403, "forbidden", "The root folder has no metadata.")
    return row


def _template(read: store.Read, call: calls.Call) -> Row:
    params = call.request.path_params
    return templates.get_template(read, call.caller, params["scope"], params["key"])


def _instance(read: store.Read, call: calls.Call, item: Row) -> tuple[Row, Row]:
    """Return the template in the path and the item's instance of it; 404 if there is none."""
    template = _template(read, call)
    found = read(f"{metadata_query.SELECT} WHERE m.item = ? AND m.template = ?", item["id"], template["id"])
    if not found:
        raise problems.not_found("metadata instance", template["key"], code="instance_not_found")
    return template, found[0]


_PATH = "/{scope}/{key}"


def _operations(kind: ItemKind) -> list[Operation]:
    word = KIND_NAMES[kind]
    path = f"/{word}s/{{id}}/metadata"
    shown = metadata.Instance
    return [
        Operation(
            f"GET {path}", partial(list_instances, kind), f"List a {word}'s metadata", metadata.Instances
        ),
        Operation(f"GET {path}{_PATH}", partial(get, kind), f"Get one of a {word}'s metadata", shown),
        Operation(
            f"POST {path}{_PATH}",
            partial(create, kind),
            f"Put metadata on a {word}",
            shown,
            status=201,
            body=metadata.NewInstance,
            errors=(409,),
        ),
        Operation(
            f"PUT {path}{_PATH}",
            partial(update, kind),
            f"Change a {word}'s metadata",
            shown,
            body=metadata.Patch,
            errors=(409,),
        ),
        Operation(f"DELETE {path}{_PATH}", partial(delete, kind), f"Take metadata off a {word}", status=204),
    ]


routes = [one for kind in (ItemKind.FILE, ItemKind.FOLDER) for one in _operations(kind)]
