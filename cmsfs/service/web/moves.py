"""The page for choosing the target folder when items are moved or copied."""

from starlette import responses

from cmsfs.service.web import folders
from cmsfs.service.web.session import PAGE, Mistake, WebSession

_WORDS = {"move": "Move", "copy": "Copy"}


async def show(session: WebSession) -> responses.Response:
    action = session.request.path_params["action"]
    chosen = folders.parse_items(dict.fromkeys(session.request.query_params.getlist("item")))
    if action not in _WORDS or not chosen:
        raise Mistake("There is nothing to move.", status=404)
    folder = await session.ask("GET /folders/{id}", wire_id=session.id, fields="name,path_collection")
    found = await session.ask(
        "GET /folders/{id}/items",
        wire_id=session.id,
        fields="name",
        usemarker="true",
        marker=session.marker,
        limit=PAGE,
    )
    query = "&".join(f"item={kind}-{wire_id}" for kind, wire_id in chosen)
    inside = [one for one in found["entries"] if one["type"] == "folder"]
    return session.page(
        "move.html",
        action=action,
        word=_WORDS[action],
        folder=folder,
        name=folders.display_name(folder),
        above=folder["path_collection"]["entries"],
        name_of=folders.display_name,
        inside=[one for one in inside if ("folder", one["id"]) not in chosen],
        chosen=chosen,
        query=query,
        # Folders are listed before other items.
        next=found["next_marker"] if len(inside) == PAGE else "",
    )


async def act(session: WebSession, form: dict[str, str]) -> responses.Response:
    action, chosen = session.request.path_params["action"], folders.ticked_items(form)
    if action not in _WORDS or not chosen:
        raise Mistake("There is nothing to move.")
    parent = {"parent": {"id": session.id}}

    async def do(session: WebSession, kind: str, wire_id: str) -> None:
        if action == "move":
            await session.ask(f"PUT /{kind}s/{{id}}", wire_id=wire_id, body=parent)
        elif kind == "web_link":
            raise Mistake("Web links are not copied.")
        else:
            await session.ask(f"POST /{kind}s/{{id}}/copy", wire_id=wire_id, body=parent)

    failed = await folders.for_each(session, chosen, do)
    if failed:
        return session.done(" ".join(failed), failed=True, to=f"/folders/{session.id}")
    message = "moved" if action == "move" else "copied"
    count = "It was" if len(chosen) == 1 else f"{len(chosen)} items were"
    return session.done(f"{count} {message} here.", to=f"/folders/{session.id}")
