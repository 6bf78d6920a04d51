"""Users to whom the enterprise's list of domains for collaboration does not apply: list, exempt, end."""

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin import parties
from cmsfs.service.admin.desk import Desk

PAGE = 50
_PATH = "/collaboration_whitelist_exempt_targets"


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    try:
        found = await desk.ask(f"GET {_PATH}", marker=desk.marker, limit=PAGE)
    except service_desk.Mistake as error:
        found, mistake = {"entries": [], "next_marker": None}, str(error)
    entries, following = found["entries"], found["next_marker"] or ""
    return desk.page("exemptions.html", form=form, mistake=mistake, entries=entries, next=following)


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Exempt a user, or end that."""
    word, _, number = form.get("action", "").partition(" ")
    if word == "end":
        await desk.ask(f"DELETE {_PATH}/{{id}}", wire_id=number)
        return desk.done("The exemption has ended.")
    user = await parties.find_user(desk, form.get("login", "").strip())
    await desk.ask(f"POST {_PATH}", body={"user": {"id": user["id"]}})
    return desk.done(f"{user['name']} collaborates with every domain.")
