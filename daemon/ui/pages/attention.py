"""Items that need attention: conflicts, rejected changes, recovered or missing items, and offers."""

from starlette import responses

from cmsfs import errors
from daemon.ui.desk import Form, Page, PageDesk


async def show(desk: PageDesk) -> responses.Response:
    return desk.page("attention.html", "Needs attention", found=await desk.drive.conflicts())


async def retry(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    await desk.drive.retry(given.get("path") or None)
    return desk.to("attention", "It is being tried again.")


async def discard(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    path = given.get("path", "")
    said = await desk.drive.discard(path)
    return desk.to("attention", f"The change of {path} was discarded. {said}".strip())


async def dismiss(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    said = desk.drive.dismiss_recovered()
    return desk.to("attention", said or "There are no recovered files.")


async def missing(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    done = await desk.drive.decide_missing(remove=_choice(given, "remove", "keep"))
    return desk.to("attention", done.message or "They are kept here, and asked about again in a day.")


async def allow(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    done = await desk.drive.allow_changes()
    return desk.to("attention", done.message or "The changes are uploaded now.")


async def offer(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    accepts = _choice(given, "accept", "decline")
    done = await desk.drive.decide_offers([given.get("id", "")], accept=accepts)
    return desk.to("attention", done.message or ("Accepted." if accepts else "Declined."))


def _choice(given: dict[str, str], yes: str, no: str) -> bool:
    """Return whether the button `yes` was pressed, not `no`."""
    if given.get("choice") not in (yes, no):
        raise errors.UserError("Nothing was chosen.")
    return given["choice"] == yes


PAGES: dict[str, Page] = {"attention": show}
FORMS: dict[str, Form] = {
    "retry": retry,
    "discard": discard,
    "dismiss": dismiss,
    "missing": missing,
    "allow": allow,
    "offer": offer,
}
