"""The users' log-in: for every user of the service with a password.

A user with pending terms of service is asked first, and sees nothing else.  Page requests count towards the
same rate limits as API requests.

Rule: every page is wrapped in `shown`, every form in `posted`, every upload in `sent`.
"""

from collections.abc import Awaitable, Callable
from sqlite3 import Row

from starlette import responses

from cmsfs.service import problems
from cmsfs.service.access import terms
from cmsfs.service.api import pages
from cmsfs.service.oauth import browser_sessions
from cmsfs.service.oauth.entrance import Endpoint, Entrance, Refilled
from cmsfs.service.web.session import Mistake, WebSession

_WRONG = "This login and password are not known here, or there were too many attempts. Wait a moment."

Page = Callable[[WebSession], Awaitable[responses.Response]]
Form = Callable[[WebSession, dict[str, str]], Awaitable[responses.Response]]

ENTRANCE = Entrance(
    browser_sessions.WEB,
    WebSession,
    where="your files",
    wrong=_WRONG,
    admits=lambda user: True,
    returns_to_page=True,
)


def shown(page: Page) -> Endpoint:
    """Wrap a page for users who have logged in and agreed to the terms."""

    async def checked(session: WebSession) -> responses.Response:
        _count(session)
        row = _pending(session)
        if row is not None:
            return session.page("terms.html", terms=row)
        try:
            return await page(session)
        except Mistake as mistake:
            return session.page("nothing.html", message=str(mistake), status=mistake.status)

    return ENTRANCE.admitted(_with_error_page(checked))


def posted(form: Form, page: Refilled[WebSession] | None = None, *, to: str = "") -> Endpoint:
    """Like `Entrance.posted`, for users who have agreed to the terms."""

    async def checked(session: WebSession, fields: dict[str, str]) -> responses.Response:
        _count(session)
        if _pending(session) is not None:
            return session.go("/folders/0")
        return await form(session, fields)

    return ENTRANCE.posted(checked, page, to=to)


def sent(handler: Page) -> Endpoint:
    """Like `Entrance.sent`, for users who have agreed to the terms."""

    async def checked(session: WebSession) -> responses.Response:
        _count(session)
        terms.check(session.store.read, session.caller, "/files")
        return await handler(session)

    return ENTRANCE.sent(checked)


async def agree(session: WebSession, form: dict[str, str]) -> responses.Response:
    """Handle the form that accepts the terms."""
    row = _pending(session)
    if row is not None and form.get("terms") == str(row["id"]):
        now = session.store.now()
        await session.store.write(lambda conn: terms.agree(conn, session.user["id"], row["id"], now=now))
    return session.go("/folders/0")


def _pending(session: WebSession) -> Row | None:
    return terms.pending(session.store.read, session.user["id"], session.user["enterprise"])


def _count(session: WebSession) -> None:
    session.request.app.admit(session.request, session.user["id"], session.user["enterprise"])


def _with_error_page(page: Page) -> Page:
    """Wrap a page: a refused request, such as a rate-limited one, shows the error as a page."""

    async def checked(session: WebSession) -> responses.Response:
        try:
            return await page(session)
        except problems.Refused as refused:
            answer = pages.problem(refused.code, refused.message, status=refused.status)
            answer.headers.update(refused.headers)
            return answer

    return checked
