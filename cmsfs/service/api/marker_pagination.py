"""Marker paging of what administrators manage: users, policies, assignments, exemptions, templates.

These have ascending ids and are few, so a marker is the id of the last entry sent: additions and removals
between two pages neither repeat nor hide other entries.  The specification's first marker, 0, precedes every
id.

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
    """Return the id after which the page begins; 400 for an invalid marker."""
    text = params.get("marker", "")
    number = calls.parse_id(text) if text else 0
    if number is None:
        raise problems.invalid("marker", "is not a marker of this listing", code="invalid_parameter")
    return number


def read_limit(params: datastructures.QueryParams, default: int = paging.DEFAULT_LIMIT) -> int:
    return min(paging.read_number(params, "limit", default, least=1), paging.MAX_LIMIT)


def cut_page(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], str | None]:
    """Return the rows of a page and the marker of the next one; `rows` begin where the page does."""
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], str(rows[limit - 1]["id"])


def envelope(entries: list[dict[str, Any]], limit: int, marker: str | None) -> dict[str, Any]:
    return {"entries": entries, "limit": limit, "next_marker": marker, "prev_marker": None}


def of_public_api(call: calls.Call) -> bool:
    """Return whether the client uses the public API, not just the specification."""
    return any(name in call.request.headers for name in ("x-box-ua", wire_names.VERSION_HEADER))


def number_id(call: calls.Call, number: int) -> int | str:
    """Return an id or count as a number or a string, as the client expects it (see `NumberId`)."""
    return str(number) if of_public_api(call) else number


def select_fields(
    whole: Mapping[str, Any], mini: Iterable[str], asked: Sequence[str] | None, standard: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the mini fields and those in `asked`; if that is None, the standard fields or all."""
    wanted = (*mini, *asked) if asked is not None else (tuple(standard) or tuple(whole))
    return {name: whole[name] for name in dict.fromkeys(("type", *wanted)) if name in whole}
