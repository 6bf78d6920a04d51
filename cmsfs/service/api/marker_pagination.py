"""Marker paging over what administrators manage: users, policies, assignments, exemptions, templates.

All of these have ascending ids and are few, so a marker is the id of the last entry sent: what is added or
removed between two pages neither repeats nor hides anything else.  The specification's first marker, 0,
comes before every id.

Rule: the last page's `next_marker` is null, never empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Row
from typing import Any

from starlette import datastructures

from cmsfs.models import wire_names
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.api import paging


def read_marker(params: datastructures.QueryParams) -> int:
    """The id after which the page begins; 400 for what was never a marker."""
    text = params.get("marker", "")
    number = calls.parse_id(text) if text else 0
    if number is None:
        raise problems.invalid("marker", "is not a marker of this listing", code="invalid_parameter")
    return number


def read_limit(params: datastructures.QueryParams, default: int = paging.DEFAULT_LIMIT) -> int:
    return min(paging.read_number(params, "limit", default, least=1), paging.MAX_LIMIT)


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], str | None]:
    """The rows of a page, and the marker of the next one, of rows that begin where the page does."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], str(rows[limit - 1]["id"])


def envelope(entries: list[dict[str, Any]], limit: int, marker: str | None) -> dict[str, Any]:
    return {"entries": entries, "limit": limit, "next_marker": marker, "prev_marker": None}


def of_public_api(call: calls.Call) -> bool:
    """Whether a client of the public API asks, and not one that knows the specification alone."""
    return any(name in call.request.headers for name in ("x-box-ua", wire_names.VERSION_HEADER))


def number_id(call: calls.Call, number: int) -> int | str:
    """An id or a count that the specification shows as a number, as the client reads it (see `NumberId`)."""
    return str(number) if of_public_api(call) else number


def select_fields(
    whole: Mapping[str, Any], mini: Iterable[str], asked: Sequence[str] | None, standard: Iterable[str] = ()
) -> dict[str, Any]:
    """An object with the mini fields and those that were asked for; all of it, or the standard, if none."""
    wanted = (*mini, *asked) if asked is not None else (tuple(standard) or tuple(whole))
    return {name: whole[name] for name in dict.fromkeys(("type", *wanted)) if name in whole}
