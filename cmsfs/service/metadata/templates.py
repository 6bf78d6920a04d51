"""Metadata templates: list, create, change, delete; and validation of values.

Everybody in the enterprise may read them, administrators write them.  The scope `global` holds two templates
that belong to nobody: `properties`, which takes any key, and that of skill_cards.py.

Rule: a template goes with its instances, unless a retention is assigned to it.
"""

import json
import math
from sqlite3 import Connection, IntegrityError, Row
from typing import Any

import pydantic
from starlette import responses

from cmsfs.models import paging
from cmsfs.models.content import metadata
from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import marker_pagination, operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.metadata import changes, skill_cards
from cmsfs.service.storage import store

_NEW = """
  INSERT INTO metadata_template (uuid, enterprise, key, display_name, hidden, copies, fields)
    VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
_KEY: pydantic.TypeAdapter[str] = pydantic.TypeAdapter(metadata.TemplateKey)


def get_template(read: store.Read, caller: calls.Caller, scope: str, key: str) -> Row:
    """A template by scope and key.

    400 for what cannot be a scope or a key, 403 for another enterprise's scope, 404 if there is none.
    """
    enterprise = _enterprise(caller, scope)
    try:
        _KEY.validate_python(key)
    except pydantic.ValidationError:
        raise problems.invalid("template_key", "is not the key of a metadata schema") from None
    sql = "SELECT * FROM metadata_template WHERE coalesce(enterprise, 0) = ? AND lower(key) = lower(?)"
    found = read(sql, enterprise or 0, key)
    if not found:
        raise problems.not_found("metadata_template", f"{scope}.{key}", code="instance_tuple_not_found")
    return found[0]


def _enterprise(caller: calls.Caller, scope: str) -> int | None:
    if scope == "global":
        return None
    if scope in ("enterprise", f"enterprise_{caller.enterprise}"):
        return caller.enterprise
    if scope.startswith("enterprise_") and calls.parse_id(scope.removeprefix("enterprise_")) is not None:
        raise problems.Refused(403, "forbidden", "The scope is another enterprise's.")
    raise problems.invalid("scope", "must be global or enterprise")


def get_by_id(read: store.Read, caller: calls.Caller, wire_id: str) -> Row:
    sql = "SELECT * FROM metadata_template WHERE uuid = ? AND coalesce(enterprise, ?2) = ?2"
    found = read(sql, wire_id, caller.enterprise)
    if not found:
        raise problems.not_found("metadata_template", wire_id)
    return found[0]


def scope_of(row: Row) -> str:
    return "global" if row["enterprise"] is None else f"enterprise_{row['enterprise']}"


def serialize(row: Row) -> dict[str, Any]:
    return {
        "id": row["uuid"],
        "type": "metadata_template",
        "scope": scope_of(row),
        "templateKey": row["key"],
        "displayName": row["display_name"],
        "hidden": bool(row["hidden"]),
        "copyInstanceOnItemCopy": bool(row["copies"]),
        "fields": json.loads(row["fields"]),
    }


def checked(template: Row, data: dict[str, Any]) -> dict[str, Any]:
    """The values as they are stored; 400 `schema_validation_failed` if the template does not allow them."""
    if template["key"] == skill_cards.KEY and template["enterprise"] is None:
        return skill_cards.checked(data)
    if template["enterprise"] is None:
        return {key: _free(key, value) for key, value in data.items()}
    known = {one["key"]: one for one in json.loads(template["fields"])}
    found = {}
    for key, value in data.items():
        if key not in known:
            raise _invalid(key, "is not a field of the template")
        found[key] = _value(known[key], value)
    return found


def _free(key: str, value: Any) -> Any:
    if not 0 < len(key) <= 256 or key.startswith("$") or '"' in key or "\0" in key:
        raise _invalid(key, "is no key")
    if not isinstance(value, str) or len(value) > metadata.MAX_TEXT:
        raise _invalid(key, "must be text")
    return value


def _value(field: dict[str, Any], value: Any) -> Any:
    key = field["key"]
    options = {one["key"] for one in field.get("options", ())}
    match field["type"]:
        case "string":
            if isinstance(value, str) and len(value) <= metadata.MAX_TEXT:
                return value
        case "float":
            if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
                return value
        case "date":
            try:
                return metadata.date_text(value)
            except (ValueError, AttributeError):
                pass
        case "enum":
            if isinstance(value, str) and value in options:
                return value
        case "multiSelect":
            is_list = isinstance(value, list) and all(
                isinstance(one, str) and one in options for one in value
            )
            if is_list and len(set(value)) == len(value):
                return value
    raise _invalid(key, f"is not a value of a field of type {field['type']}")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _invalid(key: str, said: str) -> problems.Refused:
    return problems.invalid(key, said, code="schema_validation_failed")


async def list_templates(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    limit, after = marker_pagination.read_limit(params), marker_pagination.read_marker(params)
    scope = call.request.url.path.rpartition("/")[2]
    if scope in ("global", "enterprise"):
        enterprise = 0 if scope == "global" else call.caller.enterprise
        where = "coalesce(enterprise, 0) = ?"
        args: list[Any] = [enterprise]
    elif wanted := params.get("metadata_instance_id"):
        where = (
            "id IN (SELECT template FROM metadata_instance WHERE uuid = ?) AND coalesce(enterprise, ?2) = ?2"
        )
        args = [wanted, call.caller.enterprise]
    else:
        said = "metadata_instance_id is required"
        raise problems.invalid("metadata_instance_id", said, reason="missing_parameter")
    sql = f"SELECT * FROM metadata_template WHERE {where} AND id > ? ORDER BY id LIMIT ?"
    rows, marker = marker_pagination.cut_page(call.store.read(sql, *args, after, limit + 1), limit)
    return calls.answer(marker_pagination.envelope([serialize(row) for row in rows], limit, marker))


async def get(call: calls.Call) -> responses.Response:
    return calls.answer(serialize(_of_path(call, call.store.read)))


async def get_one(call: calls.Call) -> responses.Response:
    return calls.answer(serialize(get_by_id(call.store.read, call.caller, call.id)))


async def create(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(metadata.NewTemplate)
    if _enterprise(call.caller, wish.scope) is None:
        raise problems.Refused(403, "forbidden", "The scope global is not yours to change.")

    def txn(conn: Connection) -> dict[str, Any]:
        number = insert(conn, call.caller.enterprise, wish)
        return serialize(store.reader(conn)("SELECT * FROM metadata_template WHERE id = ?", number)[0])

    return calls.answer(await call.store.write(txn), 201)


def insert(conn: Connection, enterprise: int, wish: metadata.NewTemplate) -> int:
    """Make a template; 409 if its key is taken."""
    key = wish.template_key or metadata.key_of(wish.display_name)
    given = [changes.field_of(one) for one in wish.fields]
    columns = (str(chance.uuid4()), enterprise, key, wish.display_name, wish.hidden)
    try:
        made = conn.execute(
            _NEW, (*columns, wish.copy_instance_on_item_copy, json.dumps(given, ensure_ascii=False))
        ).fetchone()
    except IntegrityError:
        raise problems.Refused(409, "tuple_already_exists", "The enterprise has this template.") from None
    return int(made["id"])


async def update(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    operations = changes.OPERATIONS.validate_json(await calls.read_body(call.request))

    def txn(conn: Connection) -> dict[str, Any]:
        row = _for_change(call, conn)
        changes.apply(conn, row, operations)
        return serialize(store.reader(conn)("SELECT * FROM metadata_template WHERE id = ?", row["id"])[0])

    return calls.answer(await call.store.write(txn))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = _for_change(call, conn)
        sql = "SELECT 1 FROM retention_assignment WHERE type = 'metadata_template' AND target = ?"
        if conn.execute(sql, (row["id"],)).fetchone():
            raise problems.Refused(403, "forbidden_by_policy", "A retention is assigned to the template.")
        conn.execute("DELETE FROM metadata_template WHERE id = ?", (row["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


def _for_change(call: calls.Call, conn: Connection) -> Row:
    """The template of the path, for administrators of the enterprise that it belongs to."""
    scope = call.request.path_params["scope"]
    if _enterprise(call.caller, scope) is None:
        raise problems.Refused(403, "forbidden", "The scope global is not yours to change.")
    calls.require_admin(call.caller)
    return _of_path(call, store.reader(conn))


def _of_path(call: calls.Call, read: store.Read) -> Row:
    params = call.request.path_params
    return get_template(read, call.caller, params["scope"], params["key"])


_PATH = "/metadata_templates"
_SCHEMA = _PATH + "/{scope}/{key}/schema"
_PAGE = paging.MarkerPage[metadata.Template]

routes = [
    Operation(
        f"GET {_PATH}",
        list_templates,
        "Find the template of an instance",
        _PAGE,
        query=[
            operations.Parameter("metadata_instance_id", "The instance.", required=True),
            *operations.MARKED,
        ],
    ),
    Operation(
        f"POST {_PATH}/schema",
        create,
        "Create a metadata template",
        metadata.Template,
        status=201,
        body=metadata.NewTemplate,
        errors=(409,),
    ),
    Operation(
        f"GET {_PATH}/global",
        list_templates,
        "List global templates",
        _PAGE,
        query=operations.MARKED,
    ),
    Operation(
        f"GET {_PATH}/enterprise",
        list_templates,
        "List the enterprise's templates",
        _PAGE,
        query=operations.MARKED,
    ),
    Operation(f"GET {_SCHEMA}", get, "Get a metadata template", metadata.Template),
    Operation(
        f"PUT {_SCHEMA}",
        update,
        "Change a metadata template",
        metadata.Template,
        body=changes.OPERATIONS,
        errors=(409,),
        more="The operations are applied together, or none of them is.",
    ),
    Operation(
        f"DELETE {_SCHEMA}",
        delete,
        "Remove metadata template",
        status=204,
        more="Permanently deletes the template and its instances.",
    ),
    Operation(f"GET {_PATH}/{{id}}", get_one, "Get a metadata template by its id", metadata.Template),
]
