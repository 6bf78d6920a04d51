"""Changes of a template's schema, and their effect on existing instances.

Removed fields and options go from every instance; a renamed option is renamed in them.  A field's key and
type stay what they are.

Rule: all operations of a request or none: they work on a copy, written when the last has succeeded.
"""

import json
from collections.abc import Callable
from sqlite3 import Connection, Row
from typing import Any, Literal

import pydantic

from cmsfs.models.base import Model
from cmsfs.models.content import metadata
from cmsfs.runtime import chance
from cmsfs.service import problems


class ChangeStep(Model):
    op: Literal[
        "editTemplate",
        "addField",
        "editField",
        "removeField",
        "reorderFields",
        "addEnumOption",
        "editEnumOption",
        "removeEnumOption",
        "reorderEnumOptions",
        "addMultiSelectOption",
        "editMultiSelectOption",
        "removeMultiSelectOption",
        "reorderMultiSelectOptions",
    ]
    data: dict[str, Any] = pydantic.Field(default_factory=dict)
    field_key: str = pydantic.Field("", alias="fieldKey")
    field_keys: list[str] = pydantic.Field(default_factory=list, alias="fieldKeys")
    option_key: str = pydantic.Field(
        "", validation_alias=pydantic.AliasChoices("enumOptionKey", "multiSelectOptionKey")
    )
    option_keys: list[str] = pydantic.Field(
        default_factory=list,
        validation_alias=pydantic.AliasChoices("enumOptionKeys", "multiSelectOptionKeys"),
    )


OPERATIONS = pydantic.TypeAdapter(list[ChangeStep])


class _TemplateEdit(Model):
    display_name: metadata.DisplayName | None = pydantic.Field(None, alias="displayName")
    hidden: bool | None = None
    copies: bool | None = pydantic.Field(None, alias="copyInstanceOnItemCopy")


class _FieldEdit(Model):
    display_name: metadata.DisplayName | None = pydantic.Field(None, alias="displayName")
    hidden: bool | None = None
    description: str | None = None


class _Change:
    """A template in change: its columns, its fields, and what becomes of values in instances."""

    def __init__(self, row: Row) -> None:
        self.columns: dict[str, Any] = {}
        self.fields: list[dict[str, Any]] = json.loads(row["fields"])
        # Key of a field, key of one of its options (None: the field itself), and the option's new key.
        self.replaced: list[tuple[str, str | None, str | None]] = []

    def field(self, key: str) -> dict[str, Any]:
        found = [one for one in self.fields if one["key"].lower() == key.lower()]
        if not found:
            raise problems.invalid("fieldKey", f"the template has no field {key!r}")
        return found[0]

    def option(self, operation: ChangeStep) -> dict[str, Any]:
        options = self.field(operation.field_key).get("options", [])
        found: list[dict[str, Any]] = [one for one in options if one["key"] == operation.option_key]
        if not found:
            raise problems.invalid("optionKey", f"the field has no option {operation.option_key!r}")
        return found[0]


def field_of(wish: metadata.Field) -> dict[str, Any]:
    """A field as it is stored and answered, with ids of its own."""
    found = wish.model_dump(mode="json", by_alias=True, exclude_none=True) | {"id": str(chance.uuid4())}
    if wish.type in ("enum", "multiSelect"):
        found["options"] = [_option_of(one) for one in wish.options or ()]
    else:
        found.pop("options", None)
    return found


def _option_of(wish: metadata.Option) -> dict[str, Any]:
    return wish.model_dump(mode="json", by_alias=True, exclude_none=True) | {"id": str(chance.uuid4())}


def apply(conn: Connection, row: Row, operations: list[ChangeStep]) -> None:
    """Change a template and its instances; 400 for an operation that does not fit it."""
    change = _Change(row)
    for operation in operations:
        _MAKERS[operation.op](change, operation)
    columns = change.columns | {"fields": json.dumps(change.fields, ensure_ascii=False)}
    parts = "".join(f", {name} = ?" for name in columns)
    conn.execute(
        f"UPDATE metadata_template SET version = version + 1{parts} WHERE id = ?",
        (*columns.values(), row["id"]),
    )
    if change.replaced:
        _follow(conn, row["id"], change.replaced)


def _follow(conn: Connection, template: int, replaced: list[tuple[str, str | None, str | None]]) -> None:
    for one in conn.execute("SELECT * FROM metadata_instance WHERE template = ?", (template,)).fetchall():
        data = before = json.loads(one["data"])
        for key, old, new in replaced:
            data = _without(data, key, old, new)
        if data != before:
            text = json.dumps(data, ensure_ascii=False)
            conn.execute("UPDATE metadata_instance SET data = ? WHERE id = ?", (text, one["id"]))


def _without(data: dict[str, Any], key: str, old: str | None, new: str | None) -> dict[str, Any]:
    value = data.get(key)
    if isinstance(value, list) and old is not None:
        changed = [new if each == old else each for each in value]
        return data | {key: [each for each in changed if each is not None]}
    if value is None or (old is not None and value != old):
        return data
    if new is None:
        return {name: each for name, each in data.items() if name != key}
    return data | {key: new}


def _edit_template(change: _Change, operation: ChangeStep) -> None:
    wish = _TemplateEdit.model_validate(operation.data)
    change.columns |= wish.model_dump(exclude_none=True)


def _add_field(change: _Change, operation: ChangeStep) -> None:
    # Its key is said in one place or the other, or not at all.
    named = {"key": operation.field_key} if operation.field_key and "key" not in operation.data else {}
    wish = metadata.Field.model_validate(operation.data | named)
    if wish.key.lower() in {one["key"].lower() for one in change.fields}:
        raise problems.invalid("key", f"the template has a field {wish.key!r}")
    change.fields.append(field_of(wish))


def _edit_field(change: _Change, operation: ChangeStep) -> None:
    if operation.data.keys() & {"key", "type", "id"}:
        raise problems.invalid("data", "the key and the type of a field stay")
    wish = _FieldEdit.model_validate(operation.data)
    change.field(operation.field_key).update(wish.model_dump(by_alias=True, exclude_none=True))


def _remove_field(change: _Change, operation: ChangeStep) -> None:
    field = change.field(operation.field_key)
    change.fields.remove(field)
    change.replaced.append((field["key"], None, None))


def _reorder_fields(change: _Change, operation: ChangeStep) -> None:
    change.fields = _ordered(change.fields, operation.field_keys)


def _add_option(change: _Change, operation: ChangeStep) -> None:
    field = change.field(operation.field_key)
    wish = metadata.Option.model_validate(operation.data)
    if field["type"] not in ("enum", "multiSelect") or wish.key in {one["key"] for one in field["options"]}:
        raise problems.invalid("key", f"{wish.key!r} cannot be an option of the field")
    field["options"].append(_option_of(wish))


def _edit_option(change: _Change, operation: ChangeStep) -> None:
    option, key = change.option(operation), change.field(operation.field_key)["key"]
    wish = metadata.Option.model_validate({"key": option["key"]} | operation.data)
    others = {one["key"] for one in change.field(operation.field_key)["options"] if one is not option}
    if wish.key in others:
        raise problems.invalid("key", f"the field has an option {wish.key!r}")
    change.replaced.append((key, option["key"], wish.key))
    option["key"] = wish.key
    if wish.static_config is not None:
        option["staticConfig"] = wish.static_config


def _remove_option(change: _Change, operation: ChangeStep) -> None:
    option, field = change.option(operation), change.field(operation.field_key)
    field["options"].remove(option)
    change.replaced.append((field["key"], option["key"], None))


def _reorder_options(change: _Change, operation: ChangeStep) -> None:
    field = change.field(operation.field_key)
    field["options"] = _ordered(field.get("options", []), operation.option_keys)


def _ordered(things: list[dict[str, Any]], keys: list[str]) -> list[dict[str, Any]]:
    by_key = {one["key"]: one for one in things}
    if sorted(by_key) != sorted(keys):
        raise problems.invalid("keys", "must name each of them once")
    return [by_key[key] for key in keys]


_MAKERS: dict[str, Callable[[_Change, ChangeStep], None]] = {
    "editTemplate": _edit_template,
    "addField": _add_field,
    "editField": _edit_field,
    "removeField": _remove_field,
    "reorderFields": _reorder_fields,
}
for _kind in ("Enum", "MultiSelect"):
    _MAKERS |= {
        f"add{_kind}Option": _add_option,
        f"edit{_kind}Option": _edit_option,
        f"remove{_kind}Option": _remove_option,
        f"reorder{_kind}Options": _reorder_options,
    }
