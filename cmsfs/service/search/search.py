"""The search operation: the specification's filters over the index, one page at a time.

search_plan.py decides what to scan, and how.  Without a rank the order is creation time, then id: neither
ever changes, so that pages neither repeat nor skip items that exist throughout.

Rule: queries run in a thread; `total_count` is the number of matches, counted up to COUNT_CAP.
"""

import json
from array import array
from collections.abc import Mapping
from sqlite3 import Row
from typing import Any

import pydantic
from starlette import responses

from cmsfs.models.content import search
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls, shared_links
from cmsfs.service.api.operations import Operation
from cmsfs.service.renditions import representations
from cmsfs.service.search import result_cache, search_plan
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store

# Counting stops here: ten times what can be paged through, 10 ms of work.
COUNT_CAP = 100_000


# Parameters that do not affect the matches.
_PAGE = ("limit", "offset", "fields")


async def find(call: calls.Call) -> responses.Response:
    asked = _read_query(call)
    if asked.scope == "enterprise_content":
        _check_enterprise(call.caller)
    filters = {name: value for name, value in call.request.query_params.items() if name not in _PAGE}
    end = asked.offset + min(asked.limit, search.MAX_LIMIT)
    async with call.request.app.searches.turn(f"{call.caller} {sorted(filters.items())}", end) as known:
        found = await call.store.query(lambda read: _run(read, call.caller, asked, known))
    await representations.add(call, [one.get("item", one) for one in found["entries"]])
    return calls.answer(found)


def _check_enterprise(caller: calls.Caller) -> None:
    """403 unless both the user and the token may search the whole enterprise."""
    if not caller.enterprise_content:
        raise problems.Refused(403, "forbidden", "The scope enterprise_content is not enabled for you.")
    if "enterprise_content" not in caller.scopes or caller.bound is not None:
        message = "This search needs a token with the scope enterprise_content that is bound to no item."
        raise problems.Refused(403, "insufficient_scope", message)


def _read_query(call: calls.Call) -> search.Query:
    given = {name: value for name, value in call.request.query_params.items() if value}
    try:
        asked = search.Query.model_validate(given)
    except pydantic.ValidationError as error:
        raise problems.from_validation(error, code="invalid_parameter") from None
    except RecursionError:
        raise problems.invalid("mdfilters", "is nested too deeply", code="invalid_parameter") from None
    if asked.query is None and asked.mdfilters is None:
        message = "query or mdfilters is required"
        raise problems.invalid("query", message, code="missing_parameter", reason="missing_parameter")
    return asked


def _run(
    read: store.Read, caller: calls.Caller, asked: search.Query, known: result_cache.CachedSearch
) -> dict[str, Any]:
    limit = min(asked.limit, search.MAX_LIMIT)
    links = {}
    if asked.include_recent_shared_links:
        links = shared_links.recent(read, user=caller.id, enterprise=caller.enterprise)
    if not known.reaches(asked.offset + limit):
        _run_plan(read, search_plan.make(read, caller, asked, links), known, asked.offset, limit)
    total = known.total
    rows = _items_in_order(read, known.ids[asked.offset : asked.offset + limit])
    # Results of an enterprise search are shown as their owners see them.
    viewer = None if asked.scope == "enterprise_content" else caller
    view = access_rights.View(read, viewer, links=links)
    entries = item_serializer.ItemSerializer(read, asked.fields, caller=viewer, view=view).items(rows)
    kind = "search_results_items"
    if asked.include_recent_shared_links:
        kind = "search_results_with_shared_links"
        entries = _with_links(read, viewer, rows, entries, links)
    return {"type": kind, "total_count": total, "limit": limit, "offset": asked.offset, "entries": entries}


def _with_links(
    read: store.Read,
    viewer: calls.Caller | None,
    rows: list[Row],
    entries: list[dict[str, Any]],
    links: Mapping[int, shared_links.Shared],
) -> list[dict[str, Any]]:
    """The entries with the shared link that makes an item visible, if nothing else does."""
    usual = access_rights.View(read, viewer)
    usual.look_up(rows)
    found = []
    for row, entry in zip(rows, entries, strict=True):
        by = None
        if not usual.rights(row):
            by = next((one.url for one in links.values() if one.shows(row)), None)
        found.append({"type": "search_result", "accessible_via_shared_link": by, "item": entry})
    return found


def _run_plan(
    read: store.Read,
    plan: search_plan.SearchPlan | None,
    known: result_cache.CachedSearch,
    offset: int,
    limit: int,
) -> None:
    """Fill in the total, and the ids up to the end of the page, or, after the first page, of all pages."""
    if plan is None:
        known.total = 0
        return
    if known.total is None:
        sql, args = plan.matches()
        known.total = read(f"SELECT count(*) AS n FROM ({sql} LIMIT ?) AS found", *args, COUNT_CAP)[0]["n"]
    if offset < known.total:
        # A client that requests a second page will request more.  Only ids: sorting whole rows would read
        # them.
        sql, args = plan.page(result_cache.REACH if offset else limit, 0)
        known.ids = array("q", (row["id"] for row in read(sql, *args)))


def _items_in_order(read: store.Read, numbers: "array[int]") -> list[Row]:
    found = read(
        "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
        json.dumps([*numbers]),
    )
    by_id = {row["id"]: row for row in found}
    return [by_id[number] for number in numbers if number in by_id]


routes = [
    Operation(
        "GET /search",
        find,
        "Search for content",
        search.SearchResults | search.SharedLinkResults,
        query=search.Query,
        errors=(404,),
    ),
]
