"""Log-in and log-out of web pages, and CSRF protection of their forms.

Attempts are throttled as on the authorize page (passwords.py); a user without access gets the same response
as for a wrong password.

The pages are below a secret path segment that the log-in creates (`Visit.path_secret`): the cookie is sent
and accepted only there.  So any other address of the pages, such as a bookmark, redirects to the log-in; if
`returns_to_page` is set, the log-in then continues to that page.

Rule: every page is wrapped in `admitted`, every form in `posted`, every streamed body in `sent`.
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

# The header in which scripts send the CSRF token; another site's cannot set it.
PROOF_HEADER = "x-form-proof"

_STALE = "The form is out of date, or it was not made for this browser. Go back and try again."
# Paths that a log-in continues to: only our own pages, and nothing that could be read as another host.
_WAY = re.compile(r"(/[A-Za-z0-9_-]{1,40}){1,4}", re.ASCII)


class Refilled(Protocol[S_contra]):
    """A page with a form that can be shown again with its values."""

    async def __call__(
        self, session: S_contra, /, *, form: dict[str, str] | None = None, mistake: str = ""
    ) -> responses.Response: ...


class Entrance(Generic[S]):
    """The log-in to a group of pages, for users that `admits` accepts."""

    def __init__(
        self,
        login_kind: browser_sessions.LoginKind,
        session: Callable[[requests.Request, Store, Row, browser_sessions.Visit], S],
        *,
        where: str,
        wrong: str,
        admits: Callable[[Row], bool],
        returns_to_page: bool = False,
    ) -> None:
        self._login_kind = login_kind
        self._session = session
        self._where = where
        self._wrong = wrong
        self._admits = admits
        self._returns_to_page = returns_to_page
        self.log_in_path = f"{login_kind.path}/login"

    def admitted(self, page: Callable[[S], Awaitable[responses.Response]]) -> Endpoint:
        """Wrap a page: only logged-in users see it, others are redirected to the log-in."""

        async def endpoint(request: requests.Request) -> responses.Response:
            session = self._find(request)
            return self._redirect_to_log_in(request) if session is None else await page(session)

        return endpoint

    def posted(
        self,
        form: Callable[[S, dict[str, str]], Awaitable[responses.Response]],
        page: Refilled[S] | None = None,
        *,
        to: str = "",
    ) -> Endpoint:
        """Wrap a form handler; a `Mistake` shows `page` again with the form's values, or the page at `to`.

        `to` may contain path parameters.
        """

        async def endpoint(request: requests.Request) -> responses.Response:
            fields = await _read(request)
            session = self._find(request)
            if fields is None or not self._visit(request).accepts_form(fields):
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
        """Wrap a handler for our script, with the CSRF token in a header; errors are JSON as in the API."""

        async def endpoint(request: requests.Request) -> responses.Response:
            proof = {browser_sessions.FIELD: request.headers.get(PROOF_HEADER, "")}
            if not self._visit(request).accepts_form(proof):
                raise problems.Refused(403, "invalid_request", _STALE)
            session = self._find(request)
            if session is None:
                raise problems.Refused(403, "logged_out", "You are no longer logged in.")
            return await handler(session)

        return endpoint

    async def log_out(self, session: S, form: dict[str, str]) -> responses.Response:
        await browser_sessions.log_out(session.store, session.visit)
        return _redirect(self.log_in_path)

    @property
    def routes(self) -> list[routing.Route]:
        """Return the routes of the log-in."""
        return [
            routing.Route(self.log_in_path, self._show, methods=["GET"]),
            routing.Route(self.log_in_path, self._log_in, methods=["POST"]),
        ]

    @property
    def last_routes(self) -> list[routing.Route]:
        """Return the routes of page addresses without a login's path segment; they go after all others."""
        path = self._login_kind.path
        return [
            routing.Route(path, self._elsewhere, methods=["GET"]),
            routing.Route(path + "/{rest:path}", self._elsewhere, methods=["GET", "POST"]),
        ]

    def _find(self, request: requests.Request) -> S | None:
        visited = self._visit(request)
        user, path_secret = visited.user, request.path_params.get("place", "")
        if (
            user is None
            or not self._admits(user)
            or not hmac.compare_digest(path_secret, visited.path_secret)
        ):
            return None
        # For the access log.
        request.scope["user_id"] = user["id"]
        return self._session(request, request.app.store, user, visited)

    def _visit(self, request: requests.Request) -> browser_sessions.Visit:
        return browser_sessions.visit(request.app.store, request, self._login_kind)

    async def _elsewhere(self, request: requests.Request) -> responses.Response:
        return self._redirect_to_log_in(request)

    def _redirect_to_log_in(self, request: requests.Request) -> responses.Response:
        page_path = request.url.path.removeprefix(self._login_kind.path)
        page_path = re.sub("^/at/[^/]*", "", page_path)
        kept = self._returns_to_page and request.method == "GET" and _WAY.fullmatch(page_path)
        return _redirect(self.log_in_path + (f"?{urlencode({'to': page_path})}" if kept else ""))

    async def _show(self, request: requests.Request) -> responses.Response:
        visited = self._visit(request)
        response = pages.log_in(self._where, (browser_sessions.FIELD, visited.csrf_token))
        if visited.is_new:
            browser_sessions.set_cookie(
                request, response, visited.secret, self._login_kind, path=self.log_in_path
            )
        return response

    async def _log_in(self, request: requests.Request) -> responses.Response:
        store: Store = request.app.store
        form = await _read(request)
        visited = self._visit(request)
        if form is None or not visited.accepts_form(form):
            return pages.problem("invalid_request", _STALE, status=403)
        login = form.get("login", "").strip()
        who = request.app.address(request.scope)
        user = await passwords.check(store, login, form.get("password", ""), who=who)
        rows = store.read("SELECT * FROM account WHERE id = ?", user)
        if user is None or not rows or not self._admits(rows[0]):
            proof = (browser_sessions.FIELD, visited.csrf_token)
            return pages.log_in(self._where, proof, login=login, message=self._wrong)
        secret = await browser_sessions.log_in(store, user, self._login_kind)
        at = page_sessions.address(browser_sessions.Visit(self._login_kind, secret, None, is_new=False))
        page_path = request.query_params.get("to", "")
        response = _redirect(at + (page_path if self._returns_to_page and _WAY.fullmatch(page_path) else ""))
        browser_sessions.set_cookie(request, response, secret, self._login_kind, path=at)
        return response


async def _read(request: requests.Request) -> dict[str, str] | None:
    try:
        return await tokens.read_form(request)
    except problems.OAuthRefused:
        return None


def _redirect(location: str) -> responses.Response:
    return responses.RedirectResponse(location, 303, {"Cache-Control": "no-store"})
