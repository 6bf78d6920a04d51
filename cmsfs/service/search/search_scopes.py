"""Search scopes: SQL conditions for the parts of the tree that a search covers.

Rule: many small folders become one scope, however many they are.
"""

import json
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from cmsfs.service.storage import store, tree_paths

_SIZES = """
  SELECT CAST(top.key AS BIGINT) AS place, (
    SELECT count(*) FROM (
      SELECT 1 FROM item INDEXED BY item_below
      WHERE path >= top.value ->> 0 AND path < top.value ->> 1 LIMIT ?2) AS found) AS n
  FROM json_each(?1) AS top
"""

# Conditions for many folders at once: by their path ranges, or by their ids.
RANGES = "json_each(?) AS top CROSS JOIN item INDEXED BY item_below"
_IN_RANGE = "item.path >= top.value ->> 0 AND item.path < top.value ->> 1"
_UNDER = """EXISTS (
  SELECT 1 FROM json_each('[' || replace(trim(item.path, '/'), '/', ',') || ']') AS above
  WHERE above.value IN (SELECT value FROM json_each(?)))"""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Part of what a caller can see: a condition on items, and the index to walk, if any."""

    condition: str
    args: tuple[Any, ...]
    index: str | None = None
    count_scope: "SearchScope | None" = None  # the same items, if counting them needs another query
    ranges: str | None = None  # path ranges of many folders, as JSON
    match_scope: "SearchScope | None" = None  # the same items, as a condition on text or metadata matches


def outermost(rows: list[Row]) -> list[Row]:
    """The rows that are not below another one, without duplicates."""
    by_id = {row["id"]: row for row in rows}
    return [row for row in by_id.values() if by_id.keys().isdisjoint(tree_paths.line(row)[:-1])]


def items_with_ids(ids: list[int], status: str) -> list[SearchScope]:
    if not ids:
        return []
    return [
        SearchScope(
            f"item.{status} AND item.id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
            (json.dumps(ids),),
        )
    ]


def small_folders(read: store.Read, folders: list[Row], size: int) -> set[int]:
    """The ids of the folders with at most `size` items below them."""
    found = read(_SIZES, _ranges(folders), size + 1)
    return {folders[int(one["place"])]["id"] for one in found if one["n"] <= size}


def _ranges(folders: list[Row]) -> str:
    return json.dumps([tree_paths.below(row) for row in folders])


def combined(status: str, folders: list[Row]) -> SearchScope:
    """One scope with everything below many folders."""
    ids = json.dumps([row["id"] for row in folders])
    return SearchScope(
        f"item.{status} AND {_IN_RANGE}",
        (),
        ranges=_ranges(folders),
        match_scope=SearchScope(f"item.{status} AND {_UNDER}", (ids,)),
    )
