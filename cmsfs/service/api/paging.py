"""Offset and marker paging, and the SQL that pages through folders and the trash.

A marker is the key of the last entry sent, so that additions and removals between two pages neither repeat
nor hide other entries.  It is opaque to clients and validated like any other input.

Rule: pages are full as long as there are entries; the last page's `next_marker` is null, never empty.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from starlette import datastructures

from cmsfs.service import problems
from cmsfs.service.storage import store

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
# The largest offset that the database supports; there is no reason for a lower limit.
MAX_OFFSET = 2**62

SORTS = {"id": "id", "name": "name_key", "date": "modified_at", "size": "size"}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page that a request asks for."""

    limit: int
    offset: int
    use_marker: bool
    after: tuple[int, Any, int] | None  # kind, sort key and id of the previous page's last entry
    sort: str
    descending: bool


def read_page(params: datastructures.QueryParams, *, default_sort: str = "name") -> PageRequest:
    """Parse the paging parameters of a query string; 400 if they are invalid."""
    use_marker = read_flag(params, "usemarker")
    marker = params.get("marker", "")
    if marker and not use_marker:
        raise problems.invalid("marker", "needs usemarker=true", code="invalid_parameter")
    sort = params.get("sort", "") or default_sort
    if sort not in SORTS:
        raise problems.invalid("sort", f"must be one of {', '.join(SORTS)}", code="invalid_parameter")
    direction = params.get("direction", "").upper() or "ASC"
    if direction not in ("ASC", "DESC"):
        raise problems.invalid("direction", "must be ASC or DESC", code="invalid_parameter")
    after = None
    if use_marker and marker not in ("", "0"):
        after = _decode(marker, sort, direction)
    return PageRequest(
        limit=min(read_number(params, "limit", DEFAULT_LIMIT, least=1), MAX_LIMIT),
        offset=0 if use_marker else read_number(params, "offset", 0),
        use_marker=use_marker,
        after=after,
        sort=sort,
        descending=direction == "DESC",
    )


def read_flag(params: datastructures.QueryParams, name: str) -> bool:
    """Parse a boolean in any client's spelling; 400 if it is none."""
    text = params.get(name, "").lower()
    if text not in ("", "true", "1", "false", "0"):
        raise problems.invalid(name, "must be true or false", code="invalid_parameter")
    return text in ("true", "1")


def read_number(params: datastructures.QueryParams, name: str, default: int, *, least: int = 0) -> int:
    text = params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19) or not least <= int(text) <= MAX_OFFSET:
        code = f"invalid_{name}"
        raise problems.invalid(name, f"must be a whole number, {least} or more", code=code)
    return int(text)


def select_page(
    read: store.Read, page: PageRequest, where: str, args: tuple[Any, ...]
) -> tuple[list[Row], str | None]:
    """Return the rows of `item` on a page, and the marker of the next page.

    Folders come first, then files, then web links, in the order of the kinds' numbers; `where` is SQL of our
    own.
    """
    key = SORTS[page.sort]
    order, beyond = ("DESC", "<") if page.descending else ("ASC", ">")
    values: list[Any] = [*args]
    if page.after is not None:
        kind, last, number = page.after
        where += f" AND kind >= ? AND (kind > ? OR {key} {beyond} ? OR ({key} = ? AND id {beyond} ?))"
        values += [kind, kind, last, last, number]
    sql = f"SELECT * FROM item WHERE {where} ORDER BY kind, {key} {order}, id {order} LIMIT ? OFFSET ?"
    rows = read(sql, *values, page.limit + 1, page.offset)
    marker = None
    if len(rows) > page.limit:
        rows = rows[: page.limit]
        marker = _encode(page, rows[-1], key)
    return rows, marker


def envelope(
    page: PageRequest, entries: list[dict[str, Any]], *, total: int, marker: str | None
) -> dict[str, Any]:
    """Return the collection as JSON, with the kind of paging that the request uses."""
    if page.use_marker:
        return {"entries": entries, "limit": page.limit, "next_marker": marker, "prev_marker": None}
    direction = "DESC" if page.descending else "ASC"
    order = [{"by": "type", "direction": "ASC"}, {"by": page.sort, "direction": direction}]
    return {
        "total_count": total,
        "entries": entries,
        "offset": page.offset,
        "limit": page.limit,
        "order": order,
    }


def _encode(page: PageRequest, row: Row, key: str) -> str:
    direction = "DESC" if page.descending else "ASC"
    text = json.dumps([page.sort, direction, row["kind"], row[key], row["id"]])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(marker: str, sort: str, direction: str) -> tuple[int, Any, int]:
    try:
        padded = marker.encode() + b"=" * (-len(marker) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        made_sort, made_direction, kind, last, number = found
        wanted = str if sort == "name" else int
        numbers = [one for one in (kind, number, last) if not isinstance(one, str)]
        # A bool does not count as a number here, and all numbers must fit the database's integers.
        bounded = all(type(one) is int and abs(one) < 2**63 for one in numbers)
        if (made_sort, made_direction) == (sort, direction) and isinstance(last, wanted) and bounded:
            return int(kind), last, int(number)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        pass
    raise problems.invalid("marker", "is not a marker of this listing", code="invalid_parameter")
