"""The page of terms of service: their texts, and the answer of a user.

All of it through the API's operations.  Users are asked as soon as terms are enabled, and see nothing else
before they agree.
"""

from typing import Any

from starlette import responses

from cmsfs.service.admin import desk as service_desk
from cmsfs.service.admin.desk import Desk
from cmsfs.service.admin.people import users

KINDS = {"managed": "The users of the enterprise", "external": "Users of other enterprises"}
_TERMS, _STATUSES = "/terms_of_services", "/terms_of_service_user_statuses"


async def show(desk: Desk, *, form: dict[str, str] | None = None, mistake: str = "") -> responses.Response:
    found = await desk.ask(f"GET {_TERMS}")
    terms = {one["tos_type"]: one for one in found["entries"]}
    return desk.page("terms.html", form=form, mistake=mistake, terms=terms, kinds=KINDS)


async def change(desk: Desk, form: dict[str, str]) -> responses.Response:
    """Create or change the terms of one kind of users, or look up or set the answer of a user."""
    action, _, kind = form.get("action", "").partition(" ")
    found = await desk.ask(f"GET {_TERMS}", tos_type=kind if kind in KINDS else "managed")
    known = found["entries"][0] if found["entries"] else None
    if action == "save" and kind in KINDS:
        # Browsers send line ends as in mails.
        text = form.get("text", "").replace("\r\n", "\n").strip()
        body = {"status": "enabled" if form.get("enabled") else "disabled", "text": text}
        if known is None:
            await desk.ask(f"POST {_TERMS}", body=body | {"tos_type": kind})
        else:
            await desk.ask(f"PUT {_TERMS}/{{id}}", wire_id=known["id"], body=body)
        return desk.done("The terms are saved.")
    if action in ("look", "agreed", "declined"):
        return await _answer(desk, known, action, form.get("login", "").strip())
    raise service_desk.Mistake("Choose what to do with the terms.")


async def _answer(desk: Desk, terms: Any, action: str, login: str) -> responses.Response:
    """Tell the answer of a user of the enterprise, or set it."""
    if terms is None:
        raise service_desk.Mistake("There are no terms for the users of the enterprise.")
    user = await users.find_by_login(desk, login)
    found = await desk.ask(f"GET {_STATUSES}", tos_id=terms["id"], user_id=user["id"])
    status = found["entries"][0] if found["entries"] else None
    if action == "look":
        if status is None:
            return desk.done(f"{user['name']} has not been asked yet, or has not answered.")
        word = "agreed" if status["is_accepted"] else "declined"
        return desk.done(f"{user['name']} has {word}, on {status['modified_at'][:10]}.")
    is_accepted = action == "agreed"
    if status is None:
        body = {"tos": {"id": terms["id"]}, "user": {"id": user["id"]}, "is_accepted": is_accepted}
        await desk.ask(f"POST {_STATUSES}", body=body)
    else:
        await desk.ask(f"PUT {_STATUSES}/{{id}}", wire_id=status["id"], body={"is_accepted": is_accepted})
    return desk.done(f"It is recorded that {user['name']} has {action}.")
