"""The person's trash: what is in it, back out of it, and gone for good."""

from typing import Any

from starlette import responses

from cmsfs.service.web import folders
from cmsfs.service.web.session import PAGE, Mistake, WebSession, moment

_FIELDS = "name,size,trashed_at,purged_at,path_collection"


async def show(session: WebSession) -> responses.Response:
    found = await session.ask(
        "GET /folders/trash/items", usemarker="true", marker=session.marker, limit=PAGE, fields=_FIELDS
    )
    entries = [
        session.entry(one) | {"since": moment(one.get("trashed_at") or "")} for one in found["entries"]
    ]
    return session.page("trash.html", entries=entries, next=found["next_marker"] or "")


async def act(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Bring the ticked items back, or remove them for good."""
    chosen, action = folders.picked(form), form.get("action", "")
    if not chosen:
        raise Mistake("Tick the files and folders that you mean.")
    if action not in ("restore", "purge"):
        raise Mistake("Choose what to do.")

    async def do(session: WebSession, kind: str, wire_id: str) -> Any:
        line = f"POST /{kind}s/{{id}}" if action == "restore" else f"DELETE /{kind}s/{{id}}/trash"
        await session.ask(line, wire_id=wire_id, body={})

    failed = await folders.each(session, chosen, do)
    if failed:
        return session.done(" ".join(failed), failed=True, to="/trash")
    count = "It is" if len(chosen) == 1 else f"{len(chosen)} items are"
    return session.done(f"{count} {'back' if action == 'restore' else 'gone for good'}.", to="/trash")
