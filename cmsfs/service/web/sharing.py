"""Sharing of an item: its shared link and its collaborators; and the page of what others share."""

import re
from typing import Any

from starlette import responses

from cmsfs.service.web.session import PAGE, Mistake, WebSession

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


async def change(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Create, change or remove the link; invite, change or remove collaborators."""
    kind, action = session.kind, form.get("action", "")
    line, here = f"PUT /{kind}s/{{id}}", f"/items/{kind}/{session.id}"
    if action == "link":
        await session.ask(line, wire_id=session.id, body={"shared_link": _link(form)})
        return session.done("The shared link is changed.", to=here)
    if action == "unlink":
        await session.ask(line, wire_id=session.id, body={"shared_link": None})
        return session.done("The shared link has ended.", to=here)
    if action == "invite":
        body = {
            "item": {"type": kind, "id": session.id},
            "accessible_by": {"type": "user", "login": form.get("login", "").strip()},
            "role": form.get("role", ""),
        }
        await session.ask("POST /collaborations", body=body)
        return session.done(f"{form.get('login', '').strip()} is invited.", to=here)
    verb, _, number = action.partition(" ")
    if verb == "role":
        body = {"role": form.get(f"role.{number}", "")}
        await session.ask("PUT /collaborations/{id}", wire_id=number, body=body)
        return session.done("The role is changed.", to=here)
    if verb == "end":
        await session.ask("DELETE /collaborations/{id}", wire_id=number)
        return session.done("It is no longer shared with them.", to=here)
    raise Mistake("Choose how to share this.")


def _link(form: dict[str, str]) -> dict[str, Any]:
    wish: dict[str, Any] = {"access": form.get("access") or "open"}
    if wish["access"] != "collaborators":
        wish["permissions"] = {"can_download": bool(form.get("download"))}
    if form.get("keep_password") != "yes":
        wish["password"] = form.get("password") or None
    if ends := form.get("ends", ""):
        if not _DAY.fullmatch(ends):
            raise Mistake("The last day of the link is not a valid date.")
        wish["unshared_at"] = f"{ends}T23:59:59+00:00"
    else:
        wish["unshared_at"] = None
    return wish


async def show(session: WebSession) -> responses.Response:
    """Show invitations and the items that others share."""
    waiting = await session.ask("GET /collaborations", status="pending", limit=PAGE)
    return session.page("shared.html", waiting=waiting["entries"], entries=await _shared(session))


async def _shared(session: WebSession) -> list[dict[str, Any]]:
    """Return other users' folders and files in this user's root."""
    found = await session.ask(
        "GET /folders/{id}/items", wire_id="0", limit=1000, fields="name,owned_by,size,content_modified_at"
    )
    me = str(session.user["id"])
    return [
        session.entry(one) | {"owner": one["owned_by"]["name"]}
        for one in found["entries"]
        if (one.get("owned_by") or {}).get("id", me) != me
    ]


async def answer(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Accept or reject an invitation."""
    status = "accepted" if form.get("action") == "accept" else "rejected"
    await session.ask("PUT /collaborations/{id}", wire_id=session.id, body={"status": status})
    return session.done(f"The invitation is {status}.", to="/shared")
