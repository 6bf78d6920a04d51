"""Plans a search: which items to look at, and the SQL for it.

Text is found by the full-text index, and what is found there is judged.  Where there is no text to find
(`NOT "..."`, which is how a drive lists everything), the page is walked along the index that suits: below a
folder, by creation or by change.  Somebody with whom others share looks in several places, each walked in
that order as far as the page needs; whoever sees only what is their own looks in one.

Rule: a place holds only what the caller may see, no two places hold the same item, and there are never more
than a few: the statement is as long for somebody with thousands of shared folders as for anybody else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from sqlite3 import Row
from typing import Any

from cmsfs.models import wire_names
from cmsfs.models.content import search
from cmsfs.query import fts_query
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls, shared_links
from cmsfs.service.metadata import metadata_query
from cmsfs.service.search import search_scopes
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import KINDS, ItemKind, ItemStatus

# A subtree up to this size is walked whole and sorted, 50 ms at most; of a larger one the page is found in
# the owner's items in order (of a million items 0.2 ms if it is changed a lot, 150 ms if it never was).
# If a span of time is asked for, the owner's items of that time are fewer, and are looked through instead.
SMALL_SUBTREE = 300_000
SMALL_BESIDE_A_SPAN = 20_000

# A span of creation times with more of the owner's items than this is not sorted for a page (0.4 µs an item):
# the page is found in the order of change, passing over what was not made then (0.1 µs an item, and few when
# items were made and changed in the same order).  With a million items 320 ms become 1 to 90.
SMALL_SPAN = 50_000

# So many folders are places of their own.  Of more, only the largest are; the others are one place together,
# walked whole and sorted, and an item of what was matched is judged by the folders that its path names.
MANY = 20

# A word in the name says more than one in the text (name, description, file_content, comments, tags).
_RANK = "bm25(word, 10.0, 4.0, 1.0, 1.0, 4.0)"

_SPAN = """
  SELECT count(*) AS n FROM (
    SELECT 1 FROM item INDEXED BY item_created
    WHERE owner = ? AND {} AND created_at >= ? AND created_at <= ? LIMIT ?) AS found
"""

_LARGEST = 2**63 - 1

# Since when it is known who deleted what.
_DELETIONS_SINCE = 1_675_209_600_000_000  # 2023-02-01

_ACTIVE = "status = 0"
_STATUS = {"non_trashed_only": _ACTIVE, "trashed_only": "status = 1", "all_items": "status IN (0, 1)"}


@dataclass(slots=True)
class SearchPlan:
    """A search on its way to SQL."""

    places: list[search_scopes.SearchScope]
    source: str = "item"
    key: str = "item.created_at"
    direction: str = "ASC"
    rank: str | None = None
    conditions: list[str] = field(default_factory=list)
    args: list[Any] = field(default_factory=list)

    def add(self, condition: str, *args: Any) -> None:
        self.conditions.append(condition)
        self.args.extend(args)

    @property
    def _walks(self) -> bool:
        return self.source == "item"

    def _found(self, place: search_scopes.SearchScope) -> tuple[str, list[Any]]:
        source, args = self.source, self.args
        if self._walks and place.ranges is not None:
            source, args = search_scopes.RANGES, [place.ranges, *args]
        elif self._walks and place.index is not None:
            source = f"item INDEXED BY {place.index}"
        where = " AND ".join([*self.conditions, place.condition])
        return f"FROM {source} WHERE {where}", [*args, *place.args]

    def _parts(self, *, counts: bool = False) -> list[tuple[str, list[Any]]]:
        if self._walks:
            return [
                self._found(place.counted if counts and place.counted else place) for place in self.places
            ]
        # What was matched is judged in one go.
        places = [place.judged or place for place in self.places]
        either = " OR ".join(f"({place.condition})" for place in places)
        args = tuple(arg for place in places for arg in place.args)
        return [self._found(search_scopes.SearchScope(f"({either})", args))]

    def judged(self) -> tuple[str, list[Any]]:
        """What was found in another way than by walking: where, and what is to be true of it."""
        (part,) = self._parts()
        return part

    def matches(self) -> tuple[str, list[Any]]:
        """A row for each match."""
        parts = self._parts(counts=True)
        sql = " UNION ALL ".join(f"SELECT 1 {sql}" for sql, _ in parts)
        return sql, [arg for _, args in parts for arg in args]

    def page(self, limit: int, offset: int) -> tuple[str, list[Any]]:
        """The ids of a page, in order."""
        parts = self._parts()
        order = self.rank and f"{self.rank}, item.id"
        order = order or f"{self.key} {self.direction}, item.id {self.direction}"
        if len(parts) == 1:
            sql, args = parts[0]
            return f"SELECT item.id {sql} ORDER BY {order} LIMIT ? OFFSET ?", [*args, limit, offset]
        # No place holds more of the page than lies before its end.
        each = [
            f"SELECT * FROM (SELECT item.id AS id, {self.key} AS k {sql} ORDER BY {order} LIMIT ?) AS place"
            for sql, _ in parts
        ]
        values = [arg for _, args in parts for arg in (*args, limit + offset)]
        outer = f"ORDER BY k {self.direction}, id {self.direction} LIMIT ? OFFSET ?"
        return f"SELECT id FROM ({' UNION ALL '.join(each)}) AS found {outer}", [*values, limit, offset]


def make(
    read: store.Read,
    caller: calls.Caller,
    asked: search.Query,
    links: Mapping[int, shared_links.Shared],
) -> SearchPlan | None:
    """The plan of a search; None if nothing can match.  404 for an ancestor that is not there.

    `links` are shared links of others, by item, whose items are looked through as well.
    """
    found = places(read, caller, asked, links)
    needs_trash = asked.deleted_user_ids is not None or asked.deleted_at_range is not None
    if not found or (needs_trash and asked.trash_content != "trashed_only"):
        return None
    plan = SearchPlan(found)
    if asked.sort == "modified_at":
        plan.key, plan.direction = "item.modified_at", asked.direction
    if asked.query is not None and not _add_text(plan, asked):
        return None
    if asked.mdfilters is not None:
        _add_metadata(
            plan, metadata_query.condition(read, caller, asked.mdfilters[0]), alone=asked.query is None
        )
    _add_filters(plan, asked)
    return plan


def places(
    read: store.Read,
    caller: calls.Caller,
    asked: search.Query,
    links: Mapping[int, shared_links.Shared],
) -> list[search_scopes.SearchScope]:
    """Where a search looks; 404 for an ancestor that is not there."""
    enterprise = asked.scope == "enterprise_content"
    status = _STATUS[asked.trash_content]
    folders = _ancestors(read, caller, asked)
    if folders is not None:
        tops = search_scopes.outermost(folders)
        return _below(read, caller, asked, tops, whole=enterprise)
    if caller.bound is not None:
        bound = read("SELECT * FROM item WHERE id = ?", caller.bound)
        tops = [row for row in bound if calls.rights(read, caller, row)]
        ids = [row["id"] for row in tops]
        return [*_below(read, caller, asked, tops, whole=enterprise), *search_scopes.these(ids, status)]
    if enterprise:
        of_all = "item.owner IN (SELECT id FROM account WHERE enterprise = ?)"
        return [
            search_scopes.SearchScope(f"item.{status} AND {of_all}", (caller.enterprise,), _walked(asked))
        ]
    own = _in_order(
        read, asked, search_scopes.SearchScope(f"item.{status} AND item.owner = ?", (caller.id,)), caller.id
    )
    shared = access_rights.top_shared_items(read, caller.id)
    numbers = {row["id"] for row in shared}
    for row in read(
        "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
        json.dumps([*links]),
    ):
        if row["owner"] != caller.id and numbers.isdisjoint(tree_paths.line(row)):
            shared.append(row)
    tops = search_scopes.outermost(shared)
    found = [own, *_below(read, caller, asked, tops)]
    if asked.trash_content != "trashed_only":
        found += search_scopes.these([row["id"] for row in tops], _ACTIVE)
    return found


def _below(
    read: store.Read, caller: calls.Caller, asked: search.Query, tops: list[Row], *, whole: bool = False
) -> list[search_scopes.SearchScope]:
    """What is below folders; of those of others the active, and what the caller put in the trash there."""
    folders = [row for row in tops if row["kind"] == ItemKind.FOLDER]
    is_foreign = any(not (whole or row["owner"] == caller.id) for row in folders)
    spans = asked.created_at_range is not None or asked.updated_at_range is not None
    small = search_scopes.small(read, folders, SMALL_BESIDE_A_SPAN if spans else SMALL_SUBTREE)
    together: dict[str, list[Row]] = {}
    found: list[search_scopes.SearchScope] = []
    for row in folders:
        own = whole or row["owner"] == caller.id
        if not own and asked.trash_content == "trashed_only":
            continue
        status = _STATUS[asked.trash_content] if own else _ACTIVE
        if len(folders) > MANY and (row["id"] in small or len(found) == MANY):
            together.setdefault(status, []).append(row)
            continue
        condition = f"item.{status} AND item.path >= ? AND item.path < ?"
        whole_of = search_scopes.SearchScope(condition, tree_paths.below(row), "item_below")
        if row["id"] in small:
            found.append(whole_of)
        else:
            place = search_scopes.SearchScope(
                f"{condition} AND item.owner = ?", (*tree_paths.below(row), row["owner"])
            )
            place = _in_order(read, asked, place, row["owner"])
            found.append(place if spans else replace(place, counted=whole_of))
    found += [search_scopes.together(status, rows) for status, rows in together.items()]
    if not is_foreign or asked.trash_content == "non_trashed_only":
        return found
    numbers = {row["id"] for row in tops}
    elsewhere = access_rights.trashed_elsewhere(read, caller)
    rows = read(
        "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
        json.dumps(elsewhere),
    )
    mine = [row["id"] for row in rows if not numbers.isdisjoint(tree_paths.line(row)[:-1])]
    return [*found, *search_scopes.these(mine, "status = 1")]


def _ancestors(read: store.Read, caller: calls.Caller, asked: search.Query) -> list[Row] | None:
    """The folders to search below; None is everything that the caller sees, and so is the root."""
    if not asked.ancestor_folder_ids:
        return None
    enterprise = asked.scope == "enterprise_content"
    known = {} if enterprise else _seen(read, caller, asked.ancestor_folder_ids)
    found = []
    for wire_id in dict.fromkeys(asked.ancestor_folder_ids):
        if (row := known.get(wire_id)) is not None:
            found.append(row)
        elif wire_id != wire_names.ROOT_ID and enterprise:
            row = calls.find_enterprise_item(read, caller, ItemKind.FOLDER, wire_id)
            if row is None or row["status"] != ItemStatus.ACTIVE:
                raise problems.not_found("folder", wire_id)
            found.append(row)
        else:
            found.append(calls.get_item(read, caller, ItemKind.FOLDER, wire_id, name="folder"))
    return None if wire_names.ROOT_ID in asked.ancestor_folder_ids else found


def _seen(read: store.Read, caller: calls.Caller, wire_ids: list[str]) -> dict[str, Row]:
    """The active folders among these that the caller sees, found in a few reads, by id."""
    sql = "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    # As constants: where an index is for some values alone, SQLite compiles a statement anew for each value
    # that is bound to that column, which takes three times as long as the read.
    rows = read(f"{sql} AND kind = {ItemKind.FOLDER:d} AND {_ACTIVE}", _numbers(wire_ids))
    view = access_rights.View(read, caller)
    view.look_up(rows)
    return {str(row["id"]): row for row in rows if view.rights(row)}


def _walked(asked: search.Query) -> str:
    """The index of an owner's items that has them in the order of the page."""
    if asked.type == "folder":
        return "folder_modified"
    if asked.deleted_at_range is not None:
        return "item_trashed"
    if asked.updated_at_range is None and (asked.created_at_range is not None or asked.sort == "relevance"):
        return "item_created"
    return "item_modified"


def _in_order(
    read: store.Read, asked: search.Query, place: search_scopes.SearchScope, owner: int
) -> search_scopes.SearchScope:
    """A place among an owner's items, with the index that gives a page of it soonest."""
    index = _walked(asked)
    if index != "item_created" or asked.sort != "modified_at":
        return replace(place, index=index)
    times = asked.created_at_range or search.TimeRange()
    start = 0 if times.start is None else item_serializer.micros(times.start)
    end = _LARGEST if times.end is None else item_serializer.micros(times.end)
    sql = _SPAN.format(_STATUS[asked.trash_content])
    found = read(sql, owner, start, end, SMALL_SPAN + 1)
    if found[0]["n"] <= SMALL_SPAN:
        return replace(place, index=index)
    return replace(place, index="item_modified", counted=replace(place, index=index))


def _add_text(plan: SearchPlan, asked: search.Query) -> bool:
    """Match the query's words; False if it has none."""
    columns = tuple(asked.content_types or ()) or fts_query.COLUMNS
    try:
        compiled = fts_query.compile_query(asked.query or "", columns)
    except fts_query.TooLong as error:
        raise problems.invalid("query", str(error), code="invalid_parameter") from None
    if compiled is None:
        return False
    if compiled.complement:
        plan.add("item.id NOT IN (SELECT rowid FROM word(?))", compiled.match)
    else:
        # The index as a function of what is to match; its argument comes before those of the conditions.
        plan.source = "word(?) CROSS JOIN item ON item.id = word.rowid"
        plan.args.append(compiled.match)
        if asked.sort == "relevance":
            plan.rank = _RANK
    return True


def _add_metadata(plan: SearchPlan, wanted: metadata_query.SqlCondition, *, alone: bool) -> None:
    """Without words to match, the instances are what is walked: they are fewer than the items."""
    if alone:
        plan.source = "metadata_instance AS m CROSS JOIN item"
        plan.add(f"item.id = m.item AND {wanted.sql}", *wanted.args)
    else:
        plan.add(f"item.id IN (SELECT m.item FROM metadata_instance AS m WHERE {wanted.sql})", *wanted.args)


def _add_filters(plan: SearchPlan, asked: search.Query) -> None:
    if asked.type is not None:
        # The number itself, not an argument: the index of folders is chosen by it.
        plan.add(f"item.kind = {int(KINDS[asked.type])}")
    _add_times(plan, "created_at", asked.created_at_range)
    _add_times(plan, "modified_at", asked.updated_at_range)
    _add_times(plan, "trashed_at", asked.deleted_at_range)
    if asked.size_range is not None:
        lower, upper = asked.size_range.lower, asked.size_range.upper
        plan.add(f"item.kind != {int(ItemKind.WEB_LINK)}")
        plan.add(
            "item.size BETWEEN ? AND ?",
            min(lower or 0, _LARGEST),
            _LARGEST if upper is None else min(upper, _LARGEST),
        )
    if asked.file_extensions is not None:
        extensions = [one.lower().lstrip(".") for one in asked.file_extensions]
        plan.add(f"item.kind = {int(ItemKind.FILE)}")
        plan.add("item.extension IN (SELECT value FROM json_each(?))", json.dumps(extensions))
    if asked.owner_user_ids is not None:
        plan.add(
            "item.owner IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", _numbers(asked.owner_user_ids)
        )
    if asked.deleted_user_ids is not None or asked.deleted_at_range is not None:
        plan.add("item.trashed_at >= ?", _DELETIONS_SINCE)
    if asked.deleted_user_ids is not None:
        plan.add(
            "item.trashed_by IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
            _numbers(asked.deleted_user_ids),
        )
    if asked.recent_updater_user_ids is not None:
        users = _numbers(asked.recent_updater_user_ids)
        plan.add(
            "(item.modified_by IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) OR EXISTS ("
            " SELECT 1 FROM (SELECT created_by FROM version WHERE file = item.id ORDER BY id DESC LIMIT 10)"
            " AS last WHERE created_by IN (SELECT CAST(value AS BIGINT) FROM json_each(?))))",
            users,
            users,
        )


def _add_times(plan: SearchPlan, column: str, times: search.TimeRange | None) -> None:
    if times is None:
        return
    if times.start is not None:
        plan.add(f"item.{column} >= ?", item_serializer.micros(times.start))
    # Left out, the end is the present, and nothing is later than that.
    if times.end is not None:
        plan.add(f"item.{column} <= ?", item_serializer.micros(times.end))


def _numbers(wire_ids: list[str]) -> str:
    return json.dumps([number for one in wire_ids if (number := calls.parse_id(one)) is not None])
