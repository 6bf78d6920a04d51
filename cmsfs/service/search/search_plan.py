"""Plans a search: which items to scan, and the SQL for it.

Text is looked up in the full-text index, and the matches are filtered.  Without text to look up (`NOT "..."`,
which is how a drive lists everything), a page is read along a suitable index: below a folder, by creation or
by modification.  A search covers one or more scopes, each read in that order only as far as the page needs:
the caller's own items are one scope, items shared with the caller are others.

Rule: a scope contains only what the caller may see, scopes are disjoint, and there are only a few: the SQL
statement does not grow with the number of shared folders.
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

# A subtree up to this size is scanned and sorted, which takes 50 ms at most.  In a larger one, the page is
# found by scanning the owner's items in order (with a million items, 0.2 ms if the subtree changes a lot, 150
# ms if it never does).  With a time range the owner's items in it are fewer, so the limit is lower.
SMALL_SUBTREE = 300_000
SMALL_SUBTREE_WITH_TIME_RANGE = 20_000

# If a range of creation times has more of the owner's items than this, they are not sorted for a page (0.4 µs
# per item): the items are scanned in order of modification and those outside the range skipped (0.1 µs per
# item, and few if items were created and modified in the same order).  With a million items, 320 ms become 1
# to 90.
SMALL_TIME_RANGE = 50_000

# Up to this many folders are separate scopes.  If there are more, only the large ones are; the others are
# combined into one scope, which is scanned and sorted; text matches are filtered by the folder ids in their
# path.
MAX_SEPARATE_FOLDERS = 20

# Column weights (name, description, file_content, comments, tags): a word in the name counts most.
_RANK = "bm25(word, 10.0, 4.0, 1.0, 1.0, 4.0)"

_COUNT_CREATED_BETWEEN = """
  SELECT count(*) AS n FROM (
    SELECT 1 FROM item INDEXED BY item_created
    WHERE owner = ? AND {} AND created_at >= ? AND created_at <= ? LIMIT ?) AS found
"""

_MAX_INTEGER = 2**63 - 1

# Deletions are recorded with their user since then.
_DELETIONS_SINCE = 1_675_209_600_000_000  # 2023-02-01

_ACTIVE = "status = 0"
_STATUS_CONDITION = {
    "non_trashed_only": _ACTIVE,
    "trashed_only": "status = 1",
    "all_items": "status IN (0, 1)",
}


@dataclass(slots=True)
class SearchPlan:
    """A search that is being compiled to SQL."""

    scopes: list[search_scopes.SearchScope]
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
    def _walks_index(self) -> bool:
        return self.source == "item"

    def _from_where(self, scope: search_scopes.SearchScope) -> tuple[str, list[Any]]:
        source, args = self.source, self.args
        if self._walks_index and scope.ranges is not None:
            source, args = search_scopes.RANGES, [scope.ranges, *args]
        elif self._walks_index and scope.index is not None:
            source = f"item INDEXED BY {scope.index}"
        where = " AND ".join([*self.conditions, scope.condition])
        return f"FROM {source} WHERE {where}", [*args, *scope.args]

    def _scope_queries(self, *, counts: bool = False) -> list[tuple[str, list[Any]]]:
        if self._walks_index:
            return [
                self._from_where(scope.count_scope if counts and scope.count_scope else scope)
                for scope in self.scopes
            ]
        # Matches of the full-text index are filtered by all scopes in one condition.
        scopes = [scope.match_scope or scope for scope in self.scopes]
        either = " OR ".join(f"({scope.condition})" for scope in scopes)
        args = tuple(arg for scope in scopes for arg in scope.args)
        return [self._from_where(search_scopes.SearchScope(f"({either})", args))]

    def filter_clause(self) -> tuple[str, list[Any]]:
        """The FROM and WHERE clauses of a search that does not walk an index, with their arguments."""
        (part,) = self._scope_queries()
        return part

    def matches(self) -> tuple[str, list[Any]]:
        """The query with a row for each match, to count them."""
        parts = self._scope_queries(counts=True)
        sql = " UNION ALL ".join(f"SELECT 1 {sql}" for sql, _ in parts)
        return sql, [arg for _, args in parts for arg in args]

    def page(self, limit: int, offset: int) -> tuple[str, list[Any]]:
        """The query for the ids of a page, in order."""
        parts = self._scope_queries()
        order = self.rank and f"{self.rank}, item.id"
        order = order or f"{self.key} {self.direction}, item.id {self.direction}"
        if len(parts) == 1:
            sql, args = parts[0]
            return f"SELECT item.id {sql} ORDER BY {order} LIMIT ? OFFSET ?", [*args, limit, offset]
        # No scope contributes more rows than the end of the page.
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
    """The plan of a search; None if nothing can match.  404 for a missing ancestor folder.

    `links` are shared links of others, by item; the search includes their items.
    """
    found = scopes(read, caller, asked, links)
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


def scopes(
    read: store.Read,
    caller: calls.Caller,
    asked: search.Query,
    links: Mapping[int, shared_links.Shared],
) -> list[search_scopes.SearchScope]:
    """The scopes of a search; 404 for a missing ancestor folder."""
    enterprise = asked.scope == "enterprise_content"
    status = _STATUS_CONDITION[asked.trash_content]
    folders = _ancestors(read, caller, asked)
    if folders is not None:
        tops = search_scopes.outermost(folders)
        return _folder_scopes(read, caller, asked, tops, unrestricted=enterprise)
    if caller.bound is not None:
        bound = read("SELECT * FROM item WHERE id = ?", caller.bound)
        tops = [row for row in bound if calls.rights(read, caller, row)]
        ids = [row["id"] for row in tops]
        return [
            *_folder_scopes(read, caller, asked, tops, unrestricted=enterprise),
            *search_scopes.items_with_ids(ids, status),
        ]
    if enterprise:
        of_all = "item.owner IN (SELECT id FROM account WHERE enterprise = ?)"
        return [
            search_scopes.SearchScope(f"item.{status} AND {of_all}", (caller.enterprise,), _walk_index(asked))
        ]
    own = _with_best_index(
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
    found = [own, *_folder_scopes(read, caller, asked, tops)]
    if asked.trash_content != "trashed_only":
        found += search_scopes.items_with_ids([row["id"] for row in tops], _ACTIVE)
    return found


def _folder_scopes(
    read: store.Read,
    caller: calls.Caller,
    asked: search.Query,
    tops: list[Row],
    *,
    unrestricted: bool = False,
) -> list[search_scopes.SearchScope]:
    """The scopes below folders; in other users' folders, active items and those that the caller trashed."""
    folders = [row for row in tops if row["kind"] == ItemKind.FOLDER]
    is_foreign = any(not (unrestricted or row["owner"] == caller.id) for row in folders)
    has_time_range = asked.created_at_range is not None or asked.updated_at_range is not None
    small_folders = search_scopes.small_folders(
        read, folders, SMALL_SUBTREE_WITH_TIME_RANGE if has_time_range else SMALL_SUBTREE
    )
    combined: dict[str, list[Row]] = {}
    found: list[search_scopes.SearchScope] = []
    for row in folders:
        own = unrestricted or row["owner"] == caller.id
        if not own and asked.trash_content == "trashed_only":
            continue
        status = _STATUS_CONDITION[asked.trash_content] if own else _ACTIVE
        if len(folders) > MAX_SEPARATE_FOLDERS and (
            row["id"] in small_folders or len(found) == MAX_SEPARATE_FOLDERS
        ):
            combined.setdefault(status, []).append(row)
            continue
        condition = f"item.{status} AND item.path >= ? AND item.path < ?"
        subtree = search_scopes.SearchScope(condition, tree_paths.below(row), "item_below")
        if row["id"] in small_folders:
            found.append(subtree)
        else:
            scope = search_scopes.SearchScope(
                f"{condition} AND item.owner = ?", (*tree_paths.below(row), row["owner"])
            )
            scope = _with_best_index(read, asked, scope, row["owner"])
            found.append(scope if has_time_range else replace(scope, count_scope=subtree))
    found += [search_scopes.combined(status, rows) for status, rows in combined.items()]
    if not is_foreign or asked.trash_content == "non_trashed_only":
        return found
    numbers = {row["id"] for row in tops}
    trashed_ids = access_rights.trashed_from_others(read, caller)
    rows = read(
        "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
        json.dumps(trashed_ids),
    )
    mine = [row["id"] for row in rows if not numbers.isdisjoint(tree_paths.line(row)[:-1])]
    return [*found, *search_scopes.items_with_ids(mine, "status = 1")]


def _ancestors(read: store.Read, caller: calls.Caller, asked: search.Query) -> list[Row] | None:
    """The folders to search below; None means everything that the caller can see, as for the root."""
    if not asked.ancestor_folder_ids:
        return None
    enterprise = asked.scope == "enterprise_content"
    known = {} if enterprise else _visible_folders(read, caller, asked.ancestor_folder_ids)
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


def _visible_folders(read: store.Read, caller: calls.Caller, wire_ids: list[str]) -> dict[str, Row]:
    """The active folders among these ids that the caller can see, by id; takes only a few reads."""
    sql = "SELECT * FROM item WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))"
    # Constants, not parameters: because of partial indexes, SQLite recompiles a statement for each value
    # bound to their column, which takes three times as long as the read.
    rows = read(f"{sql} AND kind = {ItemKind.FOLDER:d} AND {_ACTIVE}", _id_list(wire_ids))
    view = access_rights.View(read, caller)
    view.look_up(rows)
    return {str(row["id"]): row for row in rows if view.rights(row)}


def _walk_index(asked: search.Query) -> str:
    """The index that has an owner's items in the order of the page."""
    if asked.type == "folder":
        return "folder_modified"
    if asked.deleted_at_range is not None:
        return "item_trashed"
    if asked.updated_at_range is None and (asked.created_at_range is not None or asked.sort == "relevance"):
        return "item_created"
    return "item_modified"


def _with_best_index(
    read: store.Read, asked: search.Query, scope: search_scopes.SearchScope, owner: int
) -> search_scopes.SearchScope:
    """The scope of an owner's items, with the index that yields a page fastest."""
    index = _walk_index(asked)
    if index != "item_created" or asked.sort != "modified_at":
        return replace(scope, index=index)
    times = asked.created_at_range or search.TimeRange()
    start = 0 if times.start is None else item_serializer.micros(times.start)
    end = _MAX_INTEGER if times.end is None else item_serializer.micros(times.end)
    sql = _COUNT_CREATED_BETWEEN.format(_STATUS_CONDITION[asked.trash_content])
    found = read(sql, owner, start, end, SMALL_TIME_RANGE + 1)
    if found[0]["n"] <= SMALL_TIME_RANGE:
        return replace(scope, index=index)
    return replace(scope, index="item_modified", count_scope=replace(scope, index=index))


def _add_text(plan: SearchPlan, asked: search.Query) -> bool:
    """Add the full-text match; False if the query has no words."""
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
        # The full-text index as a table-valued function; its argument comes before those of the conditions.
        plan.source = "word(?) CROSS JOIN item ON item.id = word.rowid"
        plan.args.append(compiled.match)
        if asked.sort == "relevance":
            plan.rank = _RANK
    return True


def _add_metadata(plan: SearchPlan, wanted: metadata_query.SqlCondition, *, alone: bool) -> None:
    """Add a metadata condition; without words to match, scan the instances: they are fewer than the items."""
    if alone:
        plan.source = "metadata_instance AS m CROSS JOIN item"
        plan.add(f"item.id = m.item AND {wanted.sql}", *wanted.args)
    else:
        plan.add(f"item.id IN (SELECT m.item FROM metadata_instance AS m WHERE {wanted.sql})", *wanted.args)


def _add_filters(plan: SearchPlan, asked: search.Query) -> None:
    if asked.type is not None:
        # A literal, not a parameter, so that the planner can use the partial index of folders.
        plan.add(f"item.kind = {int(KINDS[asked.type])}")
    _add_times(plan, "created_at", asked.created_at_range)
    _add_times(plan, "modified_at", asked.updated_at_range)
    _add_times(plan, "trashed_at", asked.deleted_at_range)
    if asked.size_range is not None:
        lower, upper = asked.size_range.lower, asked.size_range.upper
        plan.add(f"item.kind != {int(ItemKind.WEB_LINK)}")
        plan.add(
            "item.size BETWEEN ? AND ?",
            min(lower or 0, _MAX_INTEGER),
            _MAX_INTEGER if upper is None else min(upper, _MAX_INTEGER),
        )
    if asked.file_extensions is not None:
        extensions = [one.lower().lstrip(".") for one in asked.file_extensions]
        plan.add(f"item.kind = {int(ItemKind.FILE)}")
        plan.add("item.extension IN (SELECT value FROM json_each(?))", json.dumps(extensions))
    if asked.owner_user_ids is not None:
        plan.add(
            "item.owner IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", _id_list(asked.owner_user_ids)
        )
    if asked.deleted_user_ids is not None or asked.deleted_at_range is not None:
        plan.add("item.trashed_at >= ?", _DELETIONS_SINCE)
    if asked.deleted_user_ids is not None:
        plan.add(
            "item.trashed_by IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
            _id_list(asked.deleted_user_ids),
        )
    if asked.recent_updater_user_ids is not None:
        users = _id_list(asked.recent_updater_user_ids)
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
    # Without an end the range ends now, and nothing is later.
    if times.end is not None:
        plan.add(f"item.{column} <= ?", item_serializer.micros(times.end))


def _id_list(wire_ids: list[str]) -> str:
    return json.dumps([number for one in wire_ids if (number := calls.parse_id(one)) is not None])
