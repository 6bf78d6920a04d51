"""The people's way in: everybody of the service who has a password.

Who has yet to agree to the enterprise's terms is asked first, and sees nothing else.  Requests of pages count
as those of programs do.

Rule: `shown` stands before every page, `posted` before every form, `sent` before every upload.
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
    keeps_way=True,
)


def shown(page: Page) -> Endpoint:
    """A page for who has logged in and agreed to the terms."""

    async def judged(session: WebSession) -> responses.Response:
        _count(session)
        row = _pending(session)
        if row is not None:
            return session.page("terms.html", terms=row)
        try:
            return await page(session)
        except Mistake as mistake:
            return session.page("nothing.html", said=str(mistake), status=mistake.status)

    return ENTRANCE.admitted(_answered(judged))


def posted(form: Form, page: Refilled[WebSession] | None = None, *, to: str = "") -> Endpoint:
    """As `Entrance.posted`, for who has agreed to the terms."""

    async def judged(session: WebSession, fields: dict[str, str]) -> responses.Response:
        _count(session)
        if _pending(session) is not None:
            return session.go("/folders/0")
        return await form(session, fields)

    return ENTRANCE.posted(judged, page, to=to)


def sent(handler: Page) -> Endpoint:
    """As `Entrance.sent`, for who has agreed to the terms."""

    async def judged(session: WebSession) -> responses.Response:
        _count(session)
        terms.check(session.store.read, session.caller, "/files")
        return await handler(session)

    return ENTRANCE.sent(judged)


async def agree(session: WebSession, form: dict[str, str]) -> responses.Response:
    """The answer to the question about the terms."""
    row = _pending(session)
    if row is not None and form.get("terms") == str(row["id"]):
        now = session.store.now()
        await session.store.write(lambda conn: terms.agree(conn, session.user["id"], row["id"], now=now))
    return session.go("/folders/0")


def _pending(session: WebSession) -> Row | None:
    return terms.pending(session.store.read, session.user["id"], session.user["enterprise"])


def _count(session: WebSession) -> None:
    session.request.app.admit(session.request, session.user["id"], session.user["enterprise"])


def _answered(page: Page) -> Page:
    """The page, or why there were too many requests for it."""

    async def judged(session: WebSession) -> responses.Response:
        try:
            return await page(session)
        except problems.Refused as refused:
            answer = pages.problem(refused.code, refused.message, status=refused.status)
            answer.headers.update(refused.headers)
            return answer

    return judged
