"""Search scopes: SQL conditions for the places that a search covers.

Rule: what is made of many folders is one place, however many they are.
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

# Many folders at once, by the beginnings and ends of their paths or by their ids.
RANGES = "json_each(?) AS top CROSS JOIN item INDEXED BY item_below"
_IN_RANGE = "item.path >= top.value ->> 0 AND item.path < top.value ->> 1"
_UNDER = """EXISTS (
  SELECT 1 FROM json_each('[' || replace(trim(item.path, '/'), '/', ',') || ']') AS above
  WHERE above.value IN (SELECT value FROM json_each(?)))"""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Part of what a caller sees: a condition on items, and the index to walk, if one is known."""

    condition: str
    args: tuple[Any, ...]
    index: str | None = None
    counted: "SearchScope | None" = None  # the same, if it is counted in another way than it is walked
    ranges: str | None = None  # of many folders, as JSON: what is below them is walked
    judged: "SearchScope | None" = None  # the same, for what was found in another way


def outermost(rows: list[Row]) -> list[Row]:
    """Those that are below none of the others, each once."""
    by_id = {row["id"]: row for row in rows}
    return [row for row in by_id.values() if by_id.keys().isdisjoint(tree_paths.line(row)[:-1])]


def these(ids: list[int], status: str) -> list[SearchScope]:
    if not ids:
        return []
    return [
        SearchScope(
            f"item.{status} AND item.id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
            (json.dumps(ids),),
        )
    ]


def small(read: store.Read, folders: list[Row], size: int) -> set[int]:
    """The ids of the folders with no more below them than this."""
    found = read(_SIZES, _ranges(folders), size + 1)
    return {folders[int(one["place"])]["id"] for one in found if one["n"] <= size}


def _ranges(folders: list[Row]) -> str:
    return json.dumps([tree_paths.below(row) for row in folders])


def together(status: str, folders: list[Row]) -> SearchScope:
    """What is below many folders, as one place."""
    ids = json.dumps([row["id"] for row in folders])
    return SearchScope(
        f"item.{status} AND {_IN_RANGE}",
        (),
        ranges=_ranges(folders),
        judged=SearchScope(f"item.{status} AND {_UNDER}", (ids,)),
    )
