"""The user's trash: list, restore, permanently delete."""

from typing import Any

from starlette import responses

from cmsfs.service.web import folders
from cmsfs.service.web.session import PAGE, Mistake, WebSession, format_time

_FIELDS = "name,size,trashed_at,purged_at,path_collection"


async def show(session: WebSession) -> responses.Response:
    found = await session.ask(
        "GET /folders/trash/items", usemarker="true", marker=session.marker, limit=PAGE, fields=_FIELDS
    )
    entries = [
        session.entry(one) | {"since": format_time(one.get("trashed_at") or "")} for one in found["entries"]
    ]
    return session.page("trash.html", entries=entries, next=found["next_marker"] or "")


async def act(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Restore the ticked items, or delete them permanently."""
    chosen, action = folders.ticked_items(form), form.get("action", "")
    if not chosen:
        raise Mistake("Tick the files and folders that you mean.")
    if action not in ("restore", "purge"):
        raise Mistake("Choose what to do.")

    async def do(session: WebSession, kind: str, wire_id: str) -> Any:
        line = f"POST /{kind}s/{{id}}" if action == "restore" else f"DELETE /{kind}s/{{id}}/trash"
        await session.ask(line, wire_id=wire_id, body={})

    failed = await folders.for_each(session, chosen, do)
    if failed:
        return session.done(" ".join(failed), failed=True, to="/trash")
    count = "It is" if len(chosen) == 1 else f"{len(chosen)} items are"
    return session.done(f"{count} {'back' if action == 'restore' else 'gone for good'}.", to="/trash")
