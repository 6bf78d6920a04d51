"""Log-in and log-out of pages for people, and CSRF tokens of their forms.

Attempts are slowed down as on the authorize page (passwords.py); who is not let in hears what a wrong
password hears.

The pages are below a word that the log-in makes (`Visit.place`): the cookie goes there and nowhere else, and
is believed there alone.  So another address of the pages, a bookmark's, leads to the log-in; where the
entrance keeps the way, the log-in leads on to it.

Rule: `admitted` stands before every page, `posted` before every form, `sent` before every streamed body.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from sqlite3 import Row
from typing import Generic, Protocol, TypeVar
from urllib.parse import urlencode

from starlette import requests, responses, routing

from cmsfs.service import problems
from cmsfs.service.api import pages
from cmsfs.service.api.inner_calls import Mistake
from cmsfs.service.oauth import browser_sessions, page_sessions, passwords, tokens
from cmsfs.service.oauth.page_sessions import PageSession
from cmsfs.service.storage.store import Store

S = TypeVar("S", bound=PageSession)
S_contra = TypeVar("S_contra", bound=PageSession, contravariant=True)

Endpoint = Callable[[requests.Request], Awaitable[responses.Response]]

# Scripts carry the proof of their forms here; another site's cannot set it.
PROOF_HEADER = "x-form-proof"

_STALE = "The form is out of date, or it was not made for this browser. Go back and try again."
# Ways that a log-in leads on to: of our own pages, and of nothing that could be read as another host.
_WAY = re.compile(r"(/[A-Za-z0-9_-]{1,40}){1,4}", re.ASCII)


class Refilled(Protocol[S_contra]):
    """A page with a form, which can be shown again as it was filled in."""

    async def __call__(
        self, session: S_contra, /, *, form: dict[str, str] | None = None, mistake: str = ""
    ) -> responses.Response: ...


class Entrance(Generic[S]):
    """The way into pages behind a door, for those whom `admits` lets in."""

    def __init__(
        self,
        door: browser_sessions.Door,
        session: Callable[[requests.Request, Store, Row, browser_sessions.Visit], S],
        *,
        where: str,
        wrong: str,
        admits: Callable[[Row], bool],
        keeps_way: bool = False,
    ) -> None:
        self._door = door
        self._session = session
        self._where = where
        self._wrong = wrong
        self._admits = admits
        self._keeps_way = keeps_way
        self.log_in_path = f"{door.path}/login"

    def admitted(self, page: Callable[[S], Awaitable[responses.Response]]) -> Endpoint:
        """A page for those alone who have logged in; others are led to the log-in."""

        async def endpoint(request: requests.Request) -> responses.Response:
            session = self._find(request)
            return self._lead(request) if session is None else await page(session)

        return endpoint

    def posted(
        self,
        form: Callable[[S, dict[str, str]], Awaitable[responses.Response]],
        page: Refilled[S] | None = None,
        *,
        to: str = "",
    ) -> Endpoint:
        """The answer to a form of ours; after a `Mistake`, `page` as it was filled in, or the page at `to`.

        Parameters of the path may stand in `to`.
        """

        async def endpoint(request: requests.Request) -> responses.Response:
            fields = await _read(request)
            session = self._find(request)
            if fields is None or not self._visit(request).owns(fields):
                return pages.problem("invalid_request", _STALE, status=403)
            if session is None:
                return _redirect(self.log_in_path)
            try:
                return await form(session, fields)
            except Mistake as mistake:
                if page is None:
                    where = to.format(**request.path_params)
                    return session.done(str(mistake), failed=True, to=where)
                return await page(session, form=fields, mistake=str(mistake))

        return endpoint

    def sent(self, handler: Callable[[S], Awaitable[responses.Response]]) -> Endpoint:
        """What a script of ours sends, with its proof in a header: answers and refusals are the API's."""

        async def endpoint(request: requests.Request) -> responses.Response:
            proof = {browser_sessions.FIELD: request.headers.get(PROOF_HEADER, "")}
            if not self._visit(request).owns(proof):
                raise problems.Refused(403, "invalid_request", _STALE)
            session = self._find(request)
            if session is None:
                raise problems.Refused(403, "logged_out", "You are logged in no more.")
            return await handler(session)

        return endpoint

    async def log_out(self, session: S, form: dict[str, str]) -> responses.Response:
        await browser_sessions.log_out(session.store, session.visit)
        return _redirect(self.log_in_path)

    @property
    def routes(self) -> list[routing.BaseRoute]:
        """The log-in."""
        return [
            routing.Route(self.log_in_path, self._show, methods=["GET"]),
            routing.Route(self.log_in_path, self._log_in, methods=["POST"]),
        ]

    @property
    def last_routes(self) -> list[routing.BaseRoute]:
        """Addresses of the pages without the word of a log-in; after all others."""
        path = self._door.path
        return [
            routing.Route(path, self._elsewhere, methods=["GET"]),
            routing.Route(path + "/{rest:path}", self._elsewhere, methods=["GET", "POST"]),
        ]

    def _find(self, request: requests.Request) -> S | None:
        visited = self._visit(request)
        user, place = visited.user, request.path_params.get("place", "")
        if user is None or not self._admits(user) or not hmac.compare_digest(place, visited.place):
            return None
        # For the access log.
        request.scope["user_id"] = user["id"]
        return self._session(request, request.app.store, user, visited)

    def _visit(self, request: requests.Request) -> browser_sessions.Visit:
        return browser_sessions.visit(request.app.store, request, self._door)

    async def _elsewhere(self, request: requests.Request) -> responses.Response:
        return self._lead(request)

    def _lead(self, request: requests.Request) -> responses.Response:
        way = request.url.path.removeprefix(self._door.path)
        way = re.sub("^/at/[^/]*", "", way)
        kept = self._keeps_way and request.method == "GET" and _WAY.fullmatch(way)
        return _redirect(self.log_in_path + (f"?{urlencode({'to': way})}" if kept else ""))

    async def _show(self, request: requests.Request) -> responses.Response:
        visited = self._visit(request)
        response = pages.log_in(self._where, (browser_sessions.FIELD, visited.proof))
        if visited.is_new:
            browser_sessions.set_cookie(request, response, visited.secret, self._door, path=self.log_in_path)
        return response

    async def _log_in(self, request: requests.Request) -> responses.Response:
        store: Store = request.app.store
        form = await _read(request)
        visited = self._visit(request)
        if form is None or not visited.owns(form):
            return pages.problem("invalid_request", _STALE, status=403)
        login = form.get("login", "").strip()
        who = request.app.address(request.scope)
        user = await passwords.check(store, login, form.get("password", ""), who=who)
        rows = store.read("SELECT * FROM account WHERE id = ?", user)
        if user is None or not rows or not self._admits(rows[0]):
            proof = (browser_sessions.FIELD, visited.proof)
            return pages.log_in(self._where, proof, login=login, said=self._wrong)
        secret = await browser_sessions.log_in(store, user, self._door)
        at = page_sessions.address(browser_sessions.Visit(self._door, secret, None, is_new=False))
        way = request.query_params.get("to", "")
        response = _redirect(at + (way if self._keeps_way and _WAY.fullmatch(way) else ""))
        browser_sessions.set_cookie(request, response, secret, self._door, path=at)
        return response


async def _read(request: requests.Request) -> dict[str, str] | None:
    try:
        return await tokens.read_form(request)
    except problems.OAuthRefused:
        return None


def _redirect(location: str) -> responses.Response:
    return responses.RedirectResponse(location, 303, {"Cache-Control": "no-store"})
