"""A folder's page: its items, paged; creating folders, and actions on several items.

Rule: an action is a separate request for each item; failures are reported by the item's name.
"""

from collections.abc import Iterable
from typing import Any

from starlette import responses

from cmsfs.models.content import upload_sessions
from cmsfs.service.access import calls
from cmsfs.service.web.session import FIELDS, KINDS, PAGE, Mistake, WebSession

_SORTS = {"name": "Name", "date": "Changed", "size": "Size"}
_FOLDER = "name,path_collection,permissions,shared_link,has_collaborations,owned_by"


async def show(
    session: WebSession, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    params = session.request.query_params
    sort = params.get("sort") if params.get("sort") in _SORTS else "name"
    direction = "DESC" if params.get("direction") == "DESC" else "ASC"
    folder = await session.ask("GET /folders/{id}", wire_id=session.id, fields=_FOLDER)
    found = await session.ask(
        "GET /folders/{id}/items",
        wire_id=session.id,
        fields=FIELDS,
        usemarker="true",
        marker=session.marker,
        limit=PAGE,
        sort=sort,
        direction=direction,
    )
    may = folder["permissions"]
    return session.page(
        "folder.html",
        form=form,
        mistake=mistake,
        folder=folder,
        crumbs=crumbs(session, folder),
        entries=[session.entry(one) for one in found["entries"]],
        next=found["next_marker"] or "",
        is_first=not session.marker,
        may=may,
        sort=sort,
        direction=direction,
        sorts=_SORTS,
        in_parts=upload_sessions.MIN_FILE_SIZE,
    )


def crumbs(session: WebSession, item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the visible folders above an item: name and address."""
    above = item["path_collection"]["entries"]
    return [(f"{session.base_path}/folders/{one['id']}", display_name(one)) for one in above]


def display_name(folder: dict[str, Any]) -> str:
    """Return a folder's name; "All files" for the root."""
    return "All files" if folder["id"] == "0" else folder["name"]


async def make(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Create a folder, or a web link."""
    name, parent = form.get("name", "").strip(), {"id": session.id}
    if form.get("action") == "link":
        body = {"url": form.get("url", "").strip(), "parent": parent} | ({"name": name} if name else {})
        made = await session.ask("POST /web_links", body=body)
        return session.done(f"Link {made['name']} created.", to=f"/folders/{session.id}")
    made = await session.ask("POST /folders", body={"name": name, "parent": parent})
    return session.done(f"Folder {made['name']} created.", to=f"/folders/{session.id}")


async def act(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Run an action on the ticked items."""
    here = f"/folders/{session.id}"
    action, chosen = form.get("action", ""), ticked_items(form)
    if not chosen:
        raise Mistake("Tick the files and folders that you mean.")
    if action in ("move", "copy"):
        items = "&".join(f"item={kind}-{wire_id}" for kind, wire_id in chosen)
        return session.go(f"/to/{action}/{session.id}?{items}")
    if action == "download":
        return await download(session, chosen)
    if action == "delete":
        failed = await for_each(session, chosen, _trash)
        if failed:
            return session.done(" ".join(failed), failed=True, to=here)
        count = "It is" if len(chosen) == 1 else f"{len(chosen)} items are"
        return session.done(f"{count} in the trash now.", to=here)
    raise Mistake("Choose what to do.")


def ticked_items(form: dict[str, str]) -> list[tuple[str, str]]:
    """Return the ticked items."""
    return parse_items(name.removeprefix("pick.") for name in form if name.startswith("pick."))


def parse_items(words: Iterable[str]) -> list[tuple[str, str]]:
    """Parse items written as kind and id with a hyphen between; invalid ones are skipped."""
    found = [tuple(word.split("-", 1)) for word in words]
    return [
        (one[0], one[1])
        for one in found
        if len(one) == 2 and one[0] in KINDS and calls.parse_id(one[1]) is not None
    ]


async def for_each(session: WebSession, chosen: list[tuple[str, str]], do: Any) -> list[str]:
    """Call `do` for each item; return the errors as sentences."""
    failed = []
    for kind, wire_id in chosen:
        try:
            await do(session, kind, wire_id)
        except Mistake as mistake:
            name = await _name(session, kind, wire_id)
            failed.append(f"{name}: {mistake}")
    return failed


async def _name(session: WebSession, kind: str, wire_id: str) -> str:
    try:
        found = await session.ask(f"GET /{kind}s/{{id}}", wire_id=wire_id, fields="name")
    except Mistake:
        return kind.replace("_", " ")
    name: str = found["name"]
    return name


async def _trash(session: WebSession, kind: str, wire_id: str) -> None:
    recursive = "true" if kind == "folder" else ""
    await session.ask(f"DELETE /{kind}s/{{id}}", wire_id=wire_id, recursive=recursive)


async def download(session: WebSession, chosen: list[tuple[str, str]]) -> responses.Response:
    """Download several items, or a folder, as one archive."""
    items = [{"type": kind, "id": wire_id} for kind, wire_id in chosen if kind != "web_link"]
    if not items:
        raise Mistake("Web links have nothing to download.")
    if len(items) == 1 and items[0]["type"] == "file":
        return session.go(f"/items/file/{items[0]['id']}/content")
    name = await _name(session, *chosen[0]) if len(items) == 1 else "files"
    body = {"items": items, "download_file_name": f"{name[:200]}.zip"}
    made = await session.ask("POST /zip_downloads", body=body)
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return responses.RedirectResponse(made["download_url"], 303, headers)
