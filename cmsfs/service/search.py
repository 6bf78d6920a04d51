"""Search: the filters of the specification over the index, one page at a time.

Text is found by the full-text index.  Where there is none to find (`NOT "..."`, which is how a drive lists
everything), the page is walked along the index that suits: below a folder, by creation or by change.
Without a rank the order is creation, then id: both never change, so that pages neither repeat nor lose
what is there all the while.

Rule: it all runs in a thread; `total_count` is the number of matches, counted up to COUNT_CAP.
"""

import json
from dataclasses import dataclass, field
from sqlite3 import Row
from typing import Any

import pydantic
from starlette import responses

from cmsfs.models import names, search
from cmsfs.service import access, fields, items, metadata_query, problems, query, store
from cmsfs.service.kinds import KINDS, Kind
from cmsfs.service.operations import Operation

# Counting goes on no further than this: ten times what can be paged through, 10 ms of work.
COUNT_CAP = 100_000

# A subtree up to this size is walked whole and sorted, 30 ms at most; of a larger one the page is found in
# the owner's items in order (of a million items: 180 ms for a subtree of 60,000, 50 ms for one of 200,000).
SMALL_SUBTREE = 100_000

# A word in the name says more than one in the text (name, description, file_content, comments, tags).
_RANK = "bm25(word, 10.0, 4.0, 1.0, 1.0, 4.0)"

_SUBTREE = """
  SELECT count(*) AS n FROM (SELECT 1 FROM item INDEXED BY item_below WHERE path >= ? AND path < ? LIMIT ?)
"""

_LARGEST = 2**63 - 1

_STATUS = {"non_trashed_only": "status = 0", "trashed_only": "status = 1", "all_items": "status IN (0, 1)"}


@dataclass(slots=True)
class _Plan:
    """A search on its way to SQL."""

    source: str = "item"
    order: str = "item.created_at, item.id"
    conditions: list[str] = field(default_factory=list)
    args: list[Any] = field(default_factory=list)

    def add(self, condition: str, *args: Any) -> None:
        self.conditions.append(condition)
        self.args.extend(args)

    @property
    def sql(self) -> str:
        return f"FROM {self.source} WHERE {' AND '.join(self.conditions)}"


async def find(call: access.Call) -> responses.Response:
    asked = _read_query(call)
    if asked.scope == "enterprise_content" and not call.caller.enterprise_content:
        raise problems.Refused(403, "forbidden", "The scope enterprise_content is not enabled for you.")
    found = await call.store.query(lambda read: _run(read, call.caller, asked))
    return access.answer(found)


def _read_query(call: access.Call) -> search.Query:
    given = {name: value for name, value in call.request.query_params.items() if value}
    try:
        asked = search.Query.model_validate(given)
    except pydantic.ValidationError as error:
        raise problems.from_validation(error, code="invalid_parameter") from None
    except RecursionError:
        raise problems.invalid("mdfilters", "is nested too deeply", code="invalid_parameter") from None
    if asked.query is None and asked.mdfilters is None:
        said = "query or mdfilters is required"
        raise problems.invalid("query", said, code="missing_parameter", reason="missing_parameter")
    return asked


def _run(read: store.Read, caller: access.Caller, asked: search.Query) -> dict[str, Any]:
    limit = min(asked.limit, search.MAX_LIMIT)
    plan = _plan(read, caller, asked)
    total, rows = 0, []
    if plan is not None:
        total = read(f"SELECT count(*) AS n FROM (SELECT 1 {plan.sql} LIMIT ?)", *plan.args, COUNT_CAP)[0][
            "n"
        ]
        if asked.offset < total:
            rows = _page(read, plan, limit, asked.offset)
    entries = fields.Shaper(read, asked.fields).items(rows)
    kind = "search_results_items"
    if asked.include_recent_shared_links:
        kind = "search_results_with_shared_links"
        entries = [
            {"type": "search_result", "accessible_via_shared_link": None, "item": one} for one in entries
        ]
    return {"type": kind, "total_count": total, "limit": limit, "offset": asked.offset, "entries": entries}


def _page(read: store.Read, plan: _Plan, limit: int, offset: int) -> list[Row]:
    # The ids first: sorting whole rows would read them all.
    sql = f"SELECT item.id {plan.sql} ORDER BY {plan.order} LIMIT ? OFFSET ?"
    numbers = [row["id"] for row in read(sql, *plan.args, limit, offset)]
    found = read("SELECT * FROM item WHERE id IN (SELECT value FROM json_each(?))", json.dumps(numbers))
    by_id = {row["id"]: row for row in found}
    return [by_id[number] for number in numbers]


def _plan(read: store.Read, caller: access.Caller, asked: search.Query) -> _Plan | None:
    """The search in SQL; None if nothing can match.  404 for an ancestor that is not there."""
    plan = _Plan()
    folders = _ancestors(read, caller, asked)
    needs_trash = asked.deleted_user_ids is not None or asked.deleted_at_range is not None
    if needs_trash and asked.trash_content != "trashed_only":
        return None
    if asked.sort == "modified_at":
        direction = asked.direction
        plan.order = f"item.modified_at {direction}, item.id {direction}"
    if asked.query is not None and not _add_text(plan, asked):
        return None
    if asked.mdfilters is not None:
        _add_metadata(
            plan, metadata_query.condition(read, caller, asked.mdfilters[0]), alone=asked.query is None
        )
    if plan.source == "item":
        plan.source = f"item INDEXED BY {_index(read, asked, folders)}"
    plan.add(f"item.{_STATUS[asked.trash_content]}")
    if not (folders and plan.source.endswith("item_below")):
        # What is below a folder that the caller sees is seen; saying so again would leave that index.
        visible, args = access.visible_sql(caller, enterprise=asked.scope == "enterprise_content")
        plan.add(visible, *args)
    if folders:
        ranges = [items.below(row) for row in folders]
        plan.add(
            "(" + " OR ".join(["(item.path >= ? AND item.path < ?)"] * len(ranges)) + ")",
            *(end for one in ranges for end in one),
        )
    _add_filters(plan, asked)
    return plan


def _ancestors(read: store.Read, caller: access.Caller, asked: search.Query) -> list[Row]:
    """The folders to search below; none is everything that the caller sees, and so is the root."""
    found = []
    everything = False
    for wire_id in asked.ancestor_folder_ids or ():
        row = access.get_item(read, caller, Kind.FOLDER, wire_id, name="folder")
        everything = everything or wire_id == names.ROOT_ID
        found.append(row)
    return [] if everything else found


def _add_text(plan: _Plan, asked: search.Query) -> bool:
    """Match the query's words; False if it has none."""
    columns = tuple(asked.content_types or ()) or query.COLUMNS
    try:
        compiled = query.compile_query(asked.query or "", columns)
    except query.TooLong as error:
        raise problems.invalid("query", str(error), code="invalid_parameter") from None
    if compiled is None:
        return False
    if compiled.complement:
        plan.add("item.id NOT IN (SELECT rowid FROM word WHERE word MATCH ?)", compiled.match)
    else:
        plan.source = "word CROSS JOIN item ON item.id = word.rowid"
        plan.add("word MATCH ?", compiled.match)
        if asked.sort == "relevance":
            plan.order = f"{_RANK}, item.id"
    return True


def _add_metadata(plan: _Plan, wanted: metadata_query.Condition, *, alone: bool) -> None:
    """Without words to match, the instances are what is walked: they are fewer than the items."""
    if alone:
        plan.source = "metadata_instance AS m CROSS JOIN item ON item.id = m.item"
        plan.add(wanted.sql, *wanted.args)
    else:
        plan.add(f"item.id IN (SELECT m.item FROM metadata_instance AS m WHERE {wanted.sql})", *wanted.args)


def _index(read: store.Read, asked: search.Query, folders: list[Row]) -> str:
    if len(folders) == 1 and _is_small(read, folders[0]):
        return "item_below"
    if asked.type == "folder":
        return "folder_modified"
    if asked.deleted_at_range is not None:
        return "item_trashed"
    if asked.updated_at_range is None and (asked.created_at_range is not None or asked.sort == "relevance"):
        return "item_created"
    return "item_modified"


def _is_small(read: store.Read, folder: Row) -> bool:
    found: int = read(_SUBTREE, *items.below(folder), SMALL_SUBTREE + 1)[0]["n"]
    return found <= SMALL_SUBTREE


def _add_filters(plan: _Plan, asked: search.Query) -> None:
    if asked.type is not None:
        # The number itself, not an argument: the index of folders is chosen by it.
        plan.add(f"item.kind = {int(KINDS[asked.type])}")
    _add_times(plan, "created_at", asked.created_at_range)
    _add_times(plan, "modified_at", asked.updated_at_range)
    _add_times(plan, "trashed_at", asked.deleted_at_range)
    if asked.size_range is not None:
        lower, upper = asked.size_range.lower, asked.size_range.upper
        plan.add(f"item.kind != {int(Kind.WEB_LINK)}")
        plan.add(
            "item.size BETWEEN ? AND ?",
            min(lower or 0, _LARGEST),
            _LARGEST if upper is None else min(upper, _LARGEST),
        )
    if asked.file_extensions is not None:
        extensions = [one.lower().lstrip(".") for one in asked.file_extensions]
        plan.add(f"item.kind = {int(Kind.FILE)}")
        plan.add("item.extension IN (SELECT value FROM json_each(?))", json.dumps(extensions))
    if asked.owner_user_ids is not None:
        plan.add("item.owner IN (SELECT value FROM json_each(?))", _numbers(asked.owner_user_ids))
    if asked.deleted_user_ids is not None:
        plan.add("item.trashed_by IN (SELECT value FROM json_each(?))", _numbers(asked.deleted_user_ids))
    if asked.recent_updater_user_ids is not None:
        users = _numbers(asked.recent_updater_user_ids)
        plan.add(
            "(item.modified_by IN (SELECT value FROM json_each(?)) OR EXISTS ("
            " SELECT 1 FROM (SELECT created_by FROM version WHERE file = item.id ORDER BY id DESC LIMIT 10)"
            " WHERE created_by IN (SELECT value FROM json_each(?))))",
            *(users, users),
        )


def _add_times(plan: _Plan, column: str, times: search.TimeRange | None) -> None:
    if times is None:
        return
    if times.start is not None:
        plan.add(f"item.{column} >= ?", fields.micros(times.start))
    # Left out, the end is the present, and nothing is later than that.
    if times.end is not None:
        plan.add(f"item.{column} <= ?", fields.micros(times.end))


def _numbers(wire_ids: list[str]) -> str:
    return json.dumps([number for one in wire_ids if (number := access.parse_id(one)) is not None])


routes = [
    Operation(
        "GET /search",
        find,
        "Search for content",
        search.Results | search.SharedLinkResults,
        query=search.Query,
        errors=(404,),
    ),
]
