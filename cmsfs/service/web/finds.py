"""Lists of items from everywhere: search results, recent items, favorites."""

from typing import Any

from starlette import responses

from cmsfs.service.web.folders import display_name
from cmsfs.service.web.session import FIELDS, PAGE, WebSession

_FIELDS = f"{FIELDS},path_collection"


def _read_offset(session: WebSession) -> int:
    text = session.request.query_params.get("from", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


async def search(session: WebSession) -> responses.Response:
    words, start = session.request.query_params.get("q", "").strip(), _read_offset(session)
    entries, total = [], 0
    if words:
        found = await session.ask("GET /search", query=words, limit=PAGE, offset=start, fields=_FIELDS)
        entries, total = [_entry(session, one) for one in found["entries"]], found["total_count"]
    more = start + PAGE if start + PAGE < total else None
    return session.page("search.html", asked=words, entries=entries, total=total, more=more, start=start)


def _entry(session: WebSession, item: dict[str, Any]) -> dict[str, Any]:
    path = " / ".join(display_name(one) for one in item["path_collection"]["entries"])
    return session.entry(item) | {"path": path}


async def recent(session: WebSession) -> responses.Response:
    found = await session.ask("GET /recent_items", limit=PAGE, fields=_FIELDS)
    entries = [_entry(session, one["item"]) for one in found["entries"] if one["item"]]
    return session.page(
        "list.html", heading="Recent", empty="You have worked on nothing yet.", entries=entries
    )


async def favorites(session: WebSession) -> responses.Response:
    known = await session.ask("GET /collections")
    entries: list[dict[str, Any]] = []
    for one in known["entries"]:
        found = await session.ask(
            "GET /collections/{id}/items", wire_id=one["id"], limit=PAGE, fields=_FIELDS
        )
        entries += [_entry(session, item) for item in found["entries"]]
    return session.page("list.html", heading="Favorites", empty="You have no favorites.", entries=entries)
