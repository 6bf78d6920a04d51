"""The ASGI application of the web page: authentication and routing.

Rule: all requests except those with a key and for the two static files pass `Site._admitted`.
"""

import logging

import trio
from starlette import applications, requests, responses, routing, types

from daemon.control.commands import Answers
from daemon.ui import rendering
from daemon.ui.desk import TABS, Endpoint, Form, Page, PageDesk, fields, said
from daemon.ui.door import COOKIE, Notice, PageDoor
from daemon.ui.event_stream import EventStream
from daemon.ui.history import History
from daemon.ui.live import Live
from daemon.ui.pages import (
    accounts,
    activity,
    attention,
    conflict,
    item,
    overview,
    search,
    settings,
    sharing,
    storage,
    trash,
)

log = logging.getLogger(__name__)

_SUBJECTS = (
    overview,
    activity,
    attention,
    conflict,
    item,
    sharing,
    storage,
    trash,
    search,
    settings,
    accounts,
)
PAGES: dict[str, Page] = {name: page for one in _SUBJECTS for name, page in one.PAGES.items()}
FORMS: dict[str, Form] = {name: form for one in _SUBJECTS for name, form in one.FORMS.items()}

# Maximum time that a page waits for the service.
PAGE_SECONDS = 30.0

_SLOW = "The service did not answer in time."
# Pages without a tab, with the tab of the page that links to them.
_TAB_OF = {"conflict": "attention", "live": ""}

_REFUSED = "This page is opened by `cmsfs ui`, and by the menu of the drive. A link to it is good once."


class Site:
    """The ASGI application; `seen` is the time of the last authenticated request."""

    def __init__(self, drive: Answers, door: PageDoor, live: Live, history: History) -> None:
        self._drive = drive
        self._door = door
        self._live = live
        self._history = history
        self.nursery: trio.Nursery | None = None  # of the server, while it is running
        self.seen = trio.current_time()
        at = "/at/{place}"
        routes = [
            routing.Route("/open", self._open),
            routing.Route("/static/{name}", self._static),
            routing.Route(f"{at}/live", self._follow),
        ]
        routes += [routing.Route(f"{at}/{name}", self._shown(name, page)) for name, page in PAGES.items()]
        routes += [
            routing.Route(f"{at}/{name}", self._posted(name, form), methods=["POST"])
            for name, form in FORMS.items()
        ]
        self._app = applications.Starlette(routes=routes)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            return
        request = requests.Request(scope)
        changes = request.method not in ("GET", "HEAD")
        if not self._door.is_meant(request.headers, changes=changes):
            answer: types.ASGIApp = responses.PlainTextResponse(_REFUSED, 421, rendering.HEADERS)
        else:
            answer = self._app
        await answer(scope, receive, send)

    async def _open(self, request: requests.Request) -> responses.Response:
        """Exchange a key for a cookie.  The page itself redirects, so that the browser sends the cookie."""
        found = self._door.exchange(request.query_params.get("key", ""))
        if found is None:
            return self._refused()
        cookie, where = found
        self.seen = trio.current_time()
        answer = rendering.page("opened.html", where=where)
        answer.set_cookie(COOKIE, cookie, path=self._door.at, httponly=True, samesite="strict")
        return answer

    async def _static(self, request: requests.Request) -> responses.Response:
        name = request.path_params["name"]
        if name not in rendering.TYPES:
            return responses.PlainTextResponse("Not found", 404, rendering.HEADERS)
        return rendering.static(name)

    def _shown(self, name: str, page: Page) -> Endpoint:
        async def endpoint(request: requests.Request) -> responses.Response:
            desk = self._admitted(request, name)
            if desk is None:
                return self._refused()
            try:
                with trio.fail_after(PAGE_SECONDS):
                    return await page(desk)
            except trio.TooSlowError:
                return desk.page("problem.html", "This cannot be shown", problem=_SLOW)
            except Exception as error:
                sentence = said(error)
                return desk.page("problem.html", "This cannot be shown", problem=sentence)

        return endpoint

    def _posted(self, name: str, form: Form) -> Endpoint:
        async def endpoint(request: requests.Request) -> responses.Response:
            desk = self._admitted(request, name)
            if desk is None:
                return self._refused()
            if (given := await fields(request)) is None:
                return responses.PlainTextResponse("This is no form of ours.", 400, rendering.HEADERS)
            try:
                return await form(desk, given)
            except Exception as error:
                desk.browser.notice = Notice(said(error), failed=True)
                back = given.get("back", "")
                return responses.RedirectResponse(desk.link("") + _local(back), 303, rendering.HEADERS)

        return endpoint

    def _admitted(self, request: requests.Request, name: str) -> PageDesk | None:
        place, cookie = request.path_params["place"], request.cookies.get(COOKIE, "")
        browser = self._door.admits(place, cookie)
        if browser is None or self.nursery is None:
            return None
        self.seen = trio.current_time()
        here = name if name in TABS else _TAB_OF.get(name, "-")
        return PageDesk(
            self._drive, self._door, browser, self._history, self.nursery, here, dict(request.query_params)
        )

    def _refused(self) -> responses.Response:
        return rendering.page("refused.html", code=403, said=_REFUSED)

    async def _follow(self, request: requests.Request) -> responses.Response:
        """Stream the state of the drive, now and whenever it changes."""
        if self._admitted(request, "") is None:
            return responses.PlainTextResponse(_REFUSED, 403, rendering.HEADERS)

        return EventStream(self._live, self._note)

    def _note(self) -> None:
        self.seen = trio.current_time()


def _local(back: str) -> str:
    """Return the path and query of a page as given by a form; the first page for anything else."""
    name, _, question = back.partition("?")
    if name not in PAGES:
        return ""
    return name + (f"?{question}" if question and question.isascii() and question.isprintable() else "")
