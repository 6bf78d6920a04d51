"""Reads metadata instances for other operations: as fields of items, and as search filters.

`fields=metadata.scope.key` puts instances on an item; `mdfilters` finds the items whose instance of one
template has certain values.  Numbers and dates are given as ranges, both ends included.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from sqlite3 import Row
from typing import Any

from cmsfs.models.content import metadata, search
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.metadata import templates
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind
from cmsfs.service.storage.store import Read

# An instance with what its template says, as `shown` needs it.
# What JSON says of numbers, where only numbers are.
_NUMBER = "CAST(given.value AS DOUBLE PRECISION)"
SELECT = """
  SELECT m.*, t.uuid AS template_uuid, t.key, t.enterprise, t.fields, item.kind FROM metadata_instance AS m
    JOIN metadata_template AS t ON t.id = m.template JOIN item ON item.id = m.item
"""


def serialize_instance(row: Row) -> dict[str, Any]:
    """An instance on the wire."""
    data: dict[str, Any] = json.loads(row["data"])
    return data | {
        "$id": row["uuid"],
        "$type": f"{row['key']}-{row['template_uuid']}",
        "$parent": f"{KIND_NAMES[ItemKind(row['kind'])]}_{row['item']}",
        "$scope": templates.scope_of(row),
        "$template": row["key"],
        "$version": row["version"],
        "$typeVersion": row["type_version"],
        "$canEdit": True,
    }


def attached(read: Read, rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The instances on each of these items."""
    found: dict[int, list[Row]] = {}
    numbers = json.dumps([row["id"] for row in rows])
    for one in read(
        f"{SELECT} WHERE m.item IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) ORDER BY m.id", numbers
    ):
        found.setdefault(one["item"], []).append(one)
    return found


def select_instances(instances: Sequence[Row], asked: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Instances by scope and key: those that `metadata.scope.key` names, all for `metadata` alone."""
    found: dict[str, dict[str, Any]] = {}
    wanted = {tuple(one.lower().split(".")[1:3]) for one in asked}
    for row in instances:
        scope, key = templates.scope_of(row), row["key"].lower()
        names = {(), (scope,), (scope, key)}
        if row["enterprise"] is not None:
            names |= {("enterprise",), ("enterprise", key)}
        if names & wanted:
            found.setdefault(scope, {})[row["key"]] = serialize_instance(row)
    return found


def classification(instances: Sequence[Row]) -> dict[str, Any] | None:
    """What the classification's instance says, in the words of its template."""
    for row in instances:
        if row["key"] == metadata.CLASSIFICATION:
            name = json.loads(row["data"]).get(metadata.CLASSIFICATION_FIELD)
            options = [
                one
                for each in json.loads(row["fields"])
                if each["key"] == metadata.CLASSIFICATION_FIELD
                for one in each.get("options", ())
                if one["key"] == name
            ]
            if options:
                said = options[0].get("staticConfig", {}).get("classification", {})
                definition, color = said.get("classificationDefinition", ""), said.get("colorHex", "")
                return {"name": name, "definition": definition, "color": color}
    return None


@dataclass(slots=True)
class SqlCondition:
    """A condition on `metadata_instance AS m`, and its arguments."""

    sql: str
    args: list[Any] = field(default_factory=list)

    def add(self, key: str, test: str, *args: Any, value: str = "given.value") -> None:
        path = f'$."{key}"'
        self.sql += f" AND EXISTS (SELECT 1 FROM json_each(m.data, ?) AS given WHERE {value} {test})"
        self.args += [path, *args]


def condition(read: Read, caller: calls.Caller, wish: search.MetadataFilter) -> SqlCondition:
    """What a filter asks of instances; 400 if it names no template or asks what a field cannot answer."""
    try:
        template = templates.get_template(read, caller, wish.scope, wish.template_key)
    except problems.Refused as refused:
        if refused.status == 403:
            raise
        raise _invalid(f"there is no template {wish.scope}.{wish.template_key}") from None
    found = SqlCondition("m.template = ?", [template["id"]])
    types = {one["key"]: one["type"] for one in json.loads(template["fields"])}
    for key, value in wish.filters.items():
        is_free = template["enterprise"] is None and '"' not in key
        kind = types.get(key, "string" if is_free else None)
        if kind is None:
            raise _invalid(f"the template has no field {key!r}")
        _add(found, key, kind, value)
    return found


def _add(found: SqlCondition, key: str, kind: str, value: Any) -> None:
    if kind in ("string", "enum") and isinstance(value, str):
        found.add(key, "= ?", value)
    elif kind == "multiSelect" and isinstance(value, list) and all(isinstance(one, str) for one in value):
        found.add(key, "IN (SELECT value FROM json_each(?))", json.dumps(value))
    elif kind == "float" and _is_number(value):
        found.add(key, "= ?", float(value), value=_NUMBER)
    elif kind in ("float", "date") and isinstance(value, dict) and value and value.keys() <= {"gt", "lt"}:
        for end, test in (("gt", ">= ?"), ("lt", "<= ?")):
            if end in value:
                compared = _NUMBER if kind == "float" else "given.value"
                found.add(key, test, _end(key, kind, value[end]), value=compared)
    else:
        raise _invalid(f"{key} cannot be filtered by that")


def _end(key: str, kind: str, value: Any) -> Any:
    if kind == "float" and _is_number(value):
        return float(value)
    if kind == "date" and isinstance(value, str):
        try:
            return metadata.date_text(value)
        except ValueError:
            pass
    raise _invalid(f"{key} has an end that is no {kind}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _invalid(said: str) -> problems.Refused:
    return problems.invalid("mdfilters", said, code="invalid_parameter")
