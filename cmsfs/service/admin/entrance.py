"""Administrator login and logout, and CSRF tokens of forms.

Attempts are slowed down as on the authorize page (passwords.py); who is no administrator hears what a wrong
password hears.

The pages are below a word that the log-in makes (`Visit.place`): the cookie goes there and nowhere else, and
is believed there alone.  So another address of the pages, a bookmark's, leads to the log-in.

Rule: `admitted` stands before every page, `posted` before every form.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette import requests, responses, routing

from cmsfs.service import problems
from cmsfs.service.admin.desk import Desk, Mistake, address
from cmsfs.service.api import pages
from cmsfs.service.oauth import browser_sessions, passwords, tokens
from cmsfs.service.storage.store import Store

Page = Callable[[Desk], Awaitable[responses.Response]]
Form = Callable[[Desk, dict[str, str]], Awaitable[responses.Response]]


class Refilled(Protocol):
    """A page with a form, which can be shown again as it was filled in."""

    async def __call__(
        self, desk: Desk, *, form: dict[str, str] | None = None, mistake: str = ""
    ) -> responses.Response: ...


Endpoint = Callable[[requests.Request], Awaitable[responses.Response]]

LOG_IN = "/admin/login"

_WRONG = "This login and password are no administrator's, or there were too many attempts. Wait a moment."
_STALE = "The form is out of date, or it was not made for this browser. Go back and try again."


def admitted(page: Page) -> Endpoint:
    """A page for administrators only; others are led to the log-in."""

    async def endpoint(request: requests.Request) -> responses.Response:
        desk = _desk(request)
        return _redirect(LOG_IN) if desk is None else await page(desk)

    return endpoint


def posted(form: Form, page: Refilled | None = None, *, to: str = "") -> Endpoint:
    """The answer to a form of ours; after a `Mistake`, `page` as it was filled in, or the page at `to`."""

    async def endpoint(request: requests.Request) -> responses.Response:
        fields = await _read(request)
        desk = _desk(request)
        if fields is None or not _visit(request).owns(fields):
            return pages.problem("invalid_request", _STALE, status=403)
        if desk is None:
            return _redirect(LOG_IN)
        try:
            return await form(desk, fields)
        except Mistake as mistake:
            if page is None:
                return desk.done(str(mistake), failed=True, to=to)
            return await page(desk, form=fields, mistake=str(mistake))

    return endpoint


def _desk(request: requests.Request) -> Desk | None:
    store: Store = request.app.store
    visited = _visit(request)
    user, place = visited.user, request.path_params.get("place", "")
    if user is None or user["role"] not in ("admin", "coadmin"):
        return None
    if not hmac.compare_digest(place, visited.place):
        return None
    # For the access log.
    request.scope["user_id"] = user["id"]
    return Desk(request, store, user, visited)


def _visit(request: requests.Request) -> browser_sessions.Visit:
    return browser_sessions.visit(request.app.store, request, browser_sessions.ADMIN)


async def elsewhere(request: requests.Request) -> responses.Response:
    """An address of the pages without the word of a log-in."""
    return _redirect(LOG_IN)


async def _read(request: requests.Request) -> dict[str, str] | None:
    try:
        return await tokens.read_form(request)
    except problems.OAuthRefused:
        return None


async def show(request: requests.Request) -> responses.Response:
    visited = _visit(request)
    response = pages.log_in("the administration", (browser_sessions.FIELD, visited.proof))
    if visited.is_new:
        browser_sessions.set_cookie(request, response, visited.secret, browser_sessions.ADMIN, path=LOG_IN)
    return response


async def log_in(request: requests.Request) -> responses.Response:
    store: Store = request.app.store
    form = await _read(request)
    visited = _visit(request)
    if form is None or not visited.owns(form):
        return pages.problem("invalid_request", _STALE, status=403)
    login = form.get("login", "").strip()
    user = await passwords.check(
        store, login, form.get("password", ""), who=request.app.address(request.scope)
    )
    rows = store.read("SELECT role FROM user WHERE id = ?", user)
    if user is None or not rows or rows[0]["role"] not in ("admin", "coadmin"):
        return pages.log_in(
            "the administration", (browser_sessions.FIELD, visited.proof), login=login, said=_WRONG
        )
    secret = await browser_sessions.log_in(store, user, browser_sessions.ADMIN)
    at = address(browser_sessions.Visit(browser_sessions.ADMIN, secret, None, is_new=False))
    response = _redirect(at)
    browser_sessions.set_cookie(request, response, secret, browser_sessions.ADMIN, path=at)
    return response


async def log_out(desk: Desk, form: dict[str, str]) -> responses.Response:
    await browser_sessions.log_out(desk.store, desk.visit)
    return _redirect(LOG_IN)


def _redirect(location: str) -> responses.Response:
    return responses.RedirectResponse(location, 303, {"Cache-Control": "no-store"})


routes = [
    routing.Route(LOG_IN, show, methods=["GET"]),
    routing.Route(LOG_IN, log_in, methods=["POST"]),
]
