"""The metadata query: finds files and folders by a condition on their instances of one template.

The condition is compiled to SQL (query_language.py) and combined with the caller's permissions, so that pages
are full and counts reveal nothing hidden.  A page begins after the last entry of the previous one; its marker
contains that entry's sort values.

Rule: the next query sees a changed instance; there is no index to wait for.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.models import wire_names
from cmsfs.models.content import metadata_queries, search
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api.operations import Operation
from cmsfs.service.metadata import query_language, templates
from cmsfs.service.search import search_plan
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

_SOURCE = "metadata_instance AS m CROSS JOIN item"


async def execute(call: calls.Call) -> responses.Response:
    wish = await call.body(metadata_queries.MetadataQuery)
    return calls.answer(await call.store.query(lambda read: _run(read, call.caller, wish)))


def _run(read: store.Read, caller: calls.Caller, wish: metadata_queries.MetadataQuery) -> dict[str, Any]:
    scope, _, key = wish.from_.partition(".")
    template = templates.get_template(read, caller, scope, key)
    types = {one["key"]: one["type"] for one in json.loads(template["fields"])}
    is_free = template["enterprise"] is None
    plan = _plan(read, caller, wish.ancestor_folder_id)
    plan.add("item.id = m.item AND m.template = ?", template["id"])
    if wish.query is not None and wish.query.strip():
        found = query_language.compile_condition(wish.query, wish.query_params, types, is_free=is_free)
        plan.add(found.sql, *found.args)
    order = _Order(wish.order_by, types, is_free=is_free)
    limit = min(wish.limit, metadata_queries.MAX_LIMIT)
    rows = order.page(read, plan, wish.marker, limit + 1)
    marker = order.marker(rows[limit - 1]) if len(rows) > limit > 0 else None
    rows = rows[:limit]
    entries = item_serializer.ItemSerializer(read, wish.fields, mini=True, caller=caller).items(rows)
    if wish.fields is not None:
        for entry in entries:
            _keep_requested_fields(entry, wish.fields)
    return {"entries": entries, "limit": limit, "next_marker": marker}


def _plan(read: store.Read, caller: calls.Caller, ancestor: str) -> search_plan.SearchPlan:
    """The search's scopes: below a folder, or everything that the caller can see."""
    folders = [] if ancestor == wire_names.ROOT_ID else [ancestor]
    asked = search.Query(query="x", ancestor_folder_ids=folders)
    return search_plan.SearchPlan(search_plan.scopes(read, caller, asked, {}), source=_SOURCE)


class _Order:
    """The sort order: by fields, then by item id, so that it is total."""

    def __init__(
        self, wished: Sequence[metadata_queries.QueryOrder], types: dict[str, str], *, is_free: bool
    ) -> None:
        if len({one.direction for one in wished}) > 1:
            raise problems.invalid("order_by", "must have one direction for all fields", code="invalid_query")
        self._is_descending = bool(wished) and wished[0].direction == "DESC"
        keys = {key.lower(): key for key in types}
        self._paths: list[str] = []
        self._values: list[str] = []
        self._null_substitutes: list[Any] = []
        for one in wished:
            key = keys.get(one.field_key.lower(), one.field_key)
            if key not in types and (not is_free or '"' in key):
                message = f"names {one.field_key!r}, which is no field of the template"
                raise problems.invalid("order_by", message, code="invalid_query")
            self._paths.append(query_language.path(key))
            of_type = types.get(key, "string")
            self._values.append(query_language.value_of(of_type))
            self._null_substitutes.append(0.0 if of_type == "float" else "")
        # Two columns per field: items without a value come last, or first in descending order.
        self._columns = [
            name
            for at, substitute in enumerate(self._null_substitutes)
            for name in (f"k{at} IS NULL", f"coalesce(k{at}, {substitute!r})")
        ]

    def page(
        self, read: store.Read, plan: search_plan.SearchPlan, marker: str | None, limit: int
    ) -> list[Row]:
        """The rows after a marker."""
        sql, args = plan.filter_clause()
        keys = "".join(f", {value} AS k{at}" for at, value in enumerate(self._values))
        direction, comparison = ("DESC", "<") if self._is_descending else ("ASC", ">")
        order = ", ".join(f"{name} {direction}" for name in (*self._columns, "id"))
        where, values = "", []
        if marker:
            values = self._parse_marker(marker)
            columns = ", ".join((*self._columns, "id"))
            where = f"WHERE ({columns}) {comparison} ({', '.join('?' * len(values))})"
        # Sort only ids and keys: whole rows are larger.
        found = read(
            f"SELECT * FROM (SELECT m.item AS id{keys} {sql}) AS found {where} ORDER BY {order} LIMIT ?",
            *(*self._paths, *args, *values, limit),
        )
        numbers = json.dumps([row["id"] for row in found])
        rows = read(
            "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", numbers
        )
        by_id = {row["id"]: row for row in rows}
        self._keys = {row["id"]: [row[f"k{at}"] for at in range(len(self._paths))] for row in found}
        return [by_id[row["id"]] for row in found]

    def marker(self, row: Row) -> str:
        """The marker of the page after a row."""
        text = json.dumps([*self._keys[row["id"]], row["id"]])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _parse_marker(self, marker: str) -> list[Any]:
        """The values of a marker, one for each column; 400 if it is invalid."""
        try:
            padded = marker.encode() + b"=" * (-len(marker) % 4)
            *keys, number = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            known = len(keys) == len(self._null_substitutes) and all(
                one is None or type(one) is str
                if substitute == ""
                else one is None or type(one) in (float, int)
                for one, substitute in zip(keys, self._null_substitutes, strict=True)
            )
            small = all(abs(one) < 2**63 for one in (*keys, number) if type(one) is int)
            if known and small and type(number) is int:
                return [
                    *(
                        each
                        for one, substitute in zip(keys, self._null_substitutes, strict=True)
                        for each in (one is None, substitute if one is None else one)
                    ),
                    number,
                ]
        except (ValueError, TypeError, RecursionError, binascii.Error):
            pass
        raise problems.invalid("marker", "is not a marker of this query", code="invalid_parameter")


def _keep_requested_fields(entry: dict[str, Any], fields: Sequence[str]) -> None:
    """Keep only the requested fields of an item's instances, and those that begin with `$`."""
    asked = [one.split(".") for one in fields if one.startswith("metadata.")]
    for scope, instances in (entry.get("metadata") or {}).items():
        for key, instance in instances.items():
            named = {
                parts[3]
                for parts in asked
                if len(parts) == 4 and _names(parts[1], scope) and parts[2].lower() == key.lower()
            }
            instances[key] = {
                name: one for name, one in instance.items() if name.startswith("$") or name in named
            }


def _names(asked: str, scope: str) -> bool:
    return asked == scope or (asked == "enterprise" and scope.startswith("enterprise_"))


routes = [
    Operation(
        "POST /metadata_queries/execute_read",
        execute,
        "Query items by metadata",
        metadata_queries.MetadataQueryResults,
        body=metadata_queries.MetadataQuery,
        errors=(404,),
        more="A condition compares fields of the template with `:parameters`; AND, OR and NOT combine them.",
    ),
]
