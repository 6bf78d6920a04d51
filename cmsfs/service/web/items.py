"""An item's page: a preview, its details and earlier versions, and actions on it."""

import mimetypes
from typing import Any

from starlette import responses

from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.renditions import representations
from cmsfs.service.storage import derived_files
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.web import downloads, folders
from cmsfs.service.web.session import PAGE, Mistake, WebSession, format_time

_ALL = (
    "name,description,path_collection,permissions,shared_link,has_collaborations,owned_by,created_by,"
    "modified_by,created_at,modified_at,collections"
)
_MORE = {
    "file": ",size,content_modified_at,extension,version_number,lock,sha1,allowed_invitee_roles",
    "folder": ",allowed_invitee_roles",
    "web_link": ",url",
}
_MAX_WORDS = 20_000  # characters of a text on the page


async def show(
    session: WebSession, *, form: dict[str, str] | None = None, mistake: str = ""
) -> responses.Response:
    kind = session.kind
    item = await session.ask(f"GET /{kind}s/{{id}}", wire_id=session.id, fields=_ALL + _MORE[kind])
    if kind == "folder" and session.id == "0":
        raise Mistake("The root folder cannot be changed.", status=404)
    may = item.get("permissions") or {}
    look = await _look(session, item) if kind == "file" else {"words": "", "media": "", "waits": False}
    versions, earlier = await _versions(session) if kind == "file" else ([], 0)
    answer = session.page(
        "item.html",
        form=form,
        mistake=mistake,
        item=item,
        kind=kind,
        crumbs=folders.crumbs(session, item),
        may=may,
        changed=format_time(item.get("content_modified_at") or item["modified_at"] or ""),
        made=format_time(item["created_at"] or ""),
        place=f"{session.base_path}/items/{kind}/{session.id}",
        versions=versions,
        earlier=earlier,
        collaborations=await _collaborations(session) if kind != "web_link" else [],
        roles=item.get("allowed_invitee_roles") or [],
        is_favorite=bool(item.get("collections")),
        **look,
    )
    if look["waits"]:
        answer.headers["Refresh"] = "2"
    return answer


async def _look(session: WebSession, item: dict[str, Any]) -> dict[str, Any]:
    """Return the preview of a file: its text, its image, or a media player."""
    found = {"words": "", "media": "", "waits": False}
    try:
        row = calls.get_item(
            session.store.read, session.caller, ItemKind.FILE, session.id, needed=ItemRight.PREVIEW
        )
    except problems.Refused:
        return found
    if row["size"] == 0:
        return found
    kind = (mimetypes.guess_type(row["name"])[0] or "").partition("/")[0]
    if kind in ("audio", "video") and item["permissions"].get("can_download"):
        return found | {"media": kind}
    is_picture = row["extension"] in representations.PICTURE_TYPES
    name = downloads.PICTURE if is_picture else derived_files.TEXT
    try:
        data = await representations.read(session.store, row["sha1"], name)
    except problems.Refused:
        return found
    if data is None:
        return found | {"waits": True}
    if is_picture:
        return found | {"media": "picture"}
    return found | {"words": data.decode("utf-8", "replace")[:_MAX_WORDS]}


async def _versions(session: WebSession) -> tuple[list[dict[str, Any]], int]:
    """Return a page of earlier versions, newest first, and the next offset; 0 on the last page."""
    offset = session.request.query_params.get("versions", "")
    start = int(offset) if offset.isascii() and offset.isdecimal() and len(offset) < 8 else 0
    found = await session.ask("GET /files/{id}/versions", wire_id=session.id, limit=PAGE, offset=start)
    following = start + PAGE if found["total_count"] > start + PAGE else 0
    shown = [
        {
            "id": one["id"],
            "name": one["name"],
            "size": one["size"],
            "made": format_time(one["created_at"]),
            "by": one["uploader_display_name"],
            "is_trashed": one["trashed_at"] is not None,
        }
        for one in found["entries"]
    ]
    return shown, following


async def _collaborations(session: WebSession) -> list[dict[str, Any]]:
    try:
        found = await session.ask(
            f"GET /{session.kind}s/{{id}}/collaborations", wire_id=session.id, limit=PAGE
        )
    except Mistake:
        return []
    return [
        {
            "id": one["id"],
            "name": (one["accessible_by"] or {}).get("name") or one.get("invite_email") or "",
            "login": (one["accessible_by"] or {}).get("login") or "",
            "role": one["role"],
            "status": one["status"],
        }
        for one in found["entries"]
    ]


async def change(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Rename, describe or delete an item; change favorites; restore earlier versions."""
    kind, action = session.kind, form.get("action", "")
    line = f"/{kind}s/{{id}}"
    here = f"/items/{kind}/{session.id}"
    if action == "rename":
        body = {"name": form.get("name", ""), "description": form.get("description", "")}
        made = await session.ask(f"PUT {line}", wire_id=session.id, body=body)
        return session.done(f"This is {made['name']} now.", to=here)
    if action == "delete":
        item = await session.ask(f"GET {line}", wire_id=session.id, fields="name,parent")
        recursive = "true" if kind == "folder" else ""
        await session.ask(f"DELETE {line}", wire_id=session.id, recursive=recursive)
        above = (item["parent"] or {}).get("id", "0")
        return session.done(f"{item['name']} is in the trash now.", to=f"/folders/{above}")
    if action in ("favor", "forget"):
        found = await session.ask("GET /collections")
        wanted = [{"id": one["id"]} for one in found["entries"]] if action == "favor" else []
        await session.ask(f"PUT {line}", wire_id=session.id, body={"collections": wanted})
        offset = "This is among your favorites." if wanted else "This is no favorite any more."
        return session.done(offset, to=here)
    verb, _, version = action.partition(" ")
    if kind == "file" and verb == "promote":
        body = {"type": "file_version", "id": version}
        await session.ask("POST /files/{id}/versions/current", wire_id=session.id, body=body)
        return session.done("The earlier version is the current one again.", to=here)
    params = {"version": version}
    if kind == "file" and verb == "remove":
        await session.ask("DELETE /files/{id}/versions/{version}", wire_id=session.id, params=params)
        return session.done("The version is in the trash now.", to=here)
    if kind == "file" and verb == "restore":
        line = "PUT /files/{id}/versions/{version}"
        await session.ask(line, wire_id=session.id, params=params, body={"trashed_at": None})
        return session.done("The version is restored.", to=here)
    raise Mistake("Choose what to do.")
