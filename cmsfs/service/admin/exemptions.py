"""The collaboration allowlist of domains, and the users who are exempt from it."""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.admin.people import users

PAGE = 50
_PATH = "/collaboration_whitelist_exempt_targets"
_DOMAINS = "/collaboration_whitelist_entries"

# The most entries shown; longer lists need the API.
_MAX_SHOWN = 500

DIRECTIONS = {
    "both": "in both directions",
    "inbound": "people from there are invited here",
    "outbound": "our people are invited there",
}


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    domains: list[dict[str, Any]] = []
    try:
        found = await desk.ask(f"GET {_PATH}", marker=desk.marker, limit=PAGE)
        domains = (await desk.ask(f"GET {_DOMAINS}", limit=_MAX_SHOWN))["entries"]
    except service_desk.Mistake as error:
        found, mistake = {"entries": [], "next_marker": None}, str(error)
    entries, following = found["entries"], found["next_marker"] or ""
    return desk.page(
        "exemptions.html",
        form=form,
        mistake=mistake,
        entries=entries,
        next=following,
        domains=domains,
        directions=DIRECTIONS,
    )


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Add or remove a domain, exempt a user or end an exemption."""
    verb, _, number = form.get("action", "").partition(" ")
    if verb == "forget":
        await desk.ask(f"DELETE {_DOMAINS}/{{id}}", wire_id=number)
        return desk.done("The domain is off the list.")
    if verb == "allow":
        body = {"domain": form.get("domain", "").strip(), "direction": form.get("direction", "")}
        await desk.ask(f"POST {_DOMAINS}", body=body)
        return desk.done(f"{body['domain']} is on the list.")
    if verb == "end":
        await desk.ask(f"DELETE {_PATH}/{{id}}", wire_id=number)
        return desk.done("The exemption has ended.")
    user = await users.find_by_login(desk, form.get("login", "").strip())
    await desk.ask(f"POST {_PATH}", body={"user": {"id": user["id"]}})
    return desk.done(f"{user['name']} collaborates with every domain.")
