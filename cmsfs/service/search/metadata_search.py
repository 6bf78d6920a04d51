"""The metadata query: files and folders by a condition on their instances of one template.

The condition is compiled to SQL (query_language.py) and judged together with what the caller may see, so
that a page is full and no count tells of anything hidden.  A page begins behind the last entry of the one
before; its marker holds what that was sorted by.

Rule: a change of an instance is seen by the next query; there is no index to wait for.
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
            _narrow(entry, wish.fields)
    return {"entries": entries, "limit": limit, "next_marker": marker}


def _plan(read: store.Read, caller: calls.Caller, ancestor: str) -> search_plan.SearchPlan:
    """Where is looked: below a folder, or in all that the caller sees."""
    folders = [] if ancestor == wire_names.ROOT_ID else [ancestor]
    asked = search.Query(query="x", ancestor_folder_ids=folders)
    return search_plan.SearchPlan(search_plan.places(read, caller, asked, {}), source=_SOURCE)


class _Order:
    """By which fields the results are sorted; last by the item, so that no two are the same."""

    def __init__(
        self, wished: Sequence[metadata_queries.QueryOrder], types: dict[str, str], *, is_free: bool
    ) -> None:
        if len({one.direction for one in wished}) > 1:
            raise problems.invalid("order_by", "must have one direction for all fields", code="invalid_query")
        self._is_descending = bool(wished) and wished[0].direction == "DESC"
        keys = {key.lower(): key for key in types}
        self._paths: list[str] = []
        self._values: list[str] = []
        self._least: list[Any] = []
        for one in wished:
            key = keys.get(one.field_key.lower(), one.field_key)
            if key not in types and (not is_free or '"' in key):
                said = f"names {one.field_key!r}, which is no field of the template"
                raise problems.invalid("order_by", said, code="invalid_query")
            self._paths.append(query_language.path(key))
            of_type = types.get(key, "string")
            self._values.append(query_language.value_of(of_type))
            self._least.append(0.0 if of_type == "float" else "")
        # Two columns a field: items without a value come last, or first if it is descending.
        self._columns = [
            name
            for at, least in enumerate(self._least)
            for name in (f"k{at} IS NULL", f"coalesce(k{at}, {least!r})")
        ]

    def page(
        self, read: store.Read, plan: search_plan.SearchPlan, marker: str | None, limit: int
    ) -> list[Row]:
        """The rows behind a marker."""
        sql, args = plan.judged()
        keys = "".join(f", {value} AS k{at}" for at, value in enumerate(self._values))
        direction, beyond = ("DESC", "<") if self._is_descending else ("ASC", ">")
        order = ", ".join(f"{name} {direction}" for name in (*self._columns, "id"))
        where, values = "", []
        if marker:
            values = self._read(marker)
            columns = ", ".join((*self._columns, "id"))
            where = f"WHERE ({columns}) {beyond} ({', '.join('?' * len(values))})"
        # The ids and keys alone are sorted: whole rows are larger.
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
        """Where the page behind a row begins."""
        text = json.dumps([*self._keys[row["id"]], row["id"]])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _read(self, marker: str) -> list[Any]:
        """What a page begins behind, a value for each column; 400 for what was never a marker."""
        try:
            padded = marker.encode() + b"=" * (-len(marker) % 4)
            *keys, number = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
            known = len(keys) == len(self._least) and all(
                one is None or type(one) is str if least == "" else one is None or type(one) in (float, int)
                for one, least in zip(keys, self._least, strict=True)
            )
            small = all(abs(one) < 2**63 for one in (*keys, number) if type(one) is int)
            if known and small and type(number) is int:
                return [
                    *(
                        each
                        for one, least in zip(keys, self._least, strict=True)
                        for each in (one is None, least if one is None else one)
                    ),
                    number,
                ]
        except (ValueError, TypeError, RecursionError, binascii.Error):
            pass
        raise problems.invalid("marker", "is not a marker of this query", code="invalid_parameter")


def _narrow(entry: dict[str, Any], fields: Sequence[str]) -> None:
    """Leave of the instances on an item what was asked for: what is said about them, and named fields."""
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
