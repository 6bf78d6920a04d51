"""The first page: state, connection, transfers, and pending changes."""

from starlette import responses

from daemon.ui.desk import Form, Page, PageDesk
from daemon.ui.live import Live


async def show(desk: PageDesk) -> responses.Response:
    """Show the current state; a script keeps the page up to date."""
    live = Live(desk.drive)
    await live.look()
    return desk.page("overview.html", "Overview", status=await desk.drive.status(), now=live.now)


async def pause(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    seconds = given.get("seconds", "")
    await desk.drive.pause(float(seconds) if seconds.isdecimal() else None)
    return desk.to("", "Paused. Only what a program waits for is transferred.")


async def resume(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    await desk.drive.resume()
    return desk.to("", "Sync resumed.")


async def poll(desk: PageDesk, given: dict[str, str]) -> responses.Response:
    await desk.drive.poll(full=False)
    return desk.to("", "Changes at the service are in.")


PAGES: dict[str, Page] = {"": show}
FORMS: dict[str, Form] = {"pause": pause, "resume": resume, "poll": poll}
