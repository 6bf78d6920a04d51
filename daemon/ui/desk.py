"""The context of a page request: the drive, the browser, and its form.

Rule: pages have no logic of their own; they call the same functions as the control socket's commands.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote

import trio
from starlette import requests, responses

from cmsfs import errors
from cmsfs.user_messages import explain
from daemon.control.commands import Answers
from daemon.ui import rendering
from daemon.ui.door import Browser, Notice, PageDoor
from daemon.ui.history import History

# Maximum size of a form; the largest has a folder's name and a setting's value.
MOST_FORM = 64 * 1024

# The pages in the navigation bar, by the last part of their URLs.
TABS: dict[str, str] = {
    "": "Overview",
    "activity": "Activity",
    "attention": "Attention",
    "storage": "This computer",
    "trash": "Trash",
    "search": "Search",
    "settings": "Settings",
    "accounts": "Account",
}


@dataclass(frozen=True, slots=True)
class PageDesk:
    """A request of an authenticated browser."""

    drive: Answers
    door: PageDoor
    browser: Browser
    history: History
    nursery: trio.Nursery
    here: str  # the page, as in TABS
    query: Mapping[str, str] = field(default_factory=dict)

    def page(self, template: str, title: str, **values: Any) -> responses.Response:
        """Return a page with the common layout."""
        return rendering.page(
            template,
            title=title,
            at=self.door.at,
            here=self.here,
            tabs=TABS,
            drive=self.drive.pong(),
            notice=self.browser.take_notice(),
            **values,
        )

    def later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run something in the background that takes longer than a response may, while the server is open."""
        self.nursery.start_soon(work)

    def link(self, page: str, **query: str) -> str:
        """Return the URL of a page."""
        words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return f"{self.door.at}/{page}" + (f"?{words}" if words else "")

    def to(self, page: str, said: str = "", **query: str) -> responses.Response:
        """Redirect to a page, which shows the message `said`."""
        if said:
            self.browser.notice = Notice(said)
        return responses.RedirectResponse(self.link(page, **query), 303, rendering.HEADERS)


Page = Callable[[PageDesk], Awaitable[responses.Response]]
Form = Callable[[PageDesk, dict[str, str]], Awaitable[responses.Response]]
Endpoint = Callable[[requests.Request], Awaitable[responses.Response]]


def said(error: Exception) -> str:
    """Return an error as a sentence.  Unexpected exceptions are raised again."""
    if isinstance(error, errors.CmsfsError | OSError):
        return explain(error).message
    raise error


async def fields(request: requests.Request) -> dict[str, str] | None:
    """Parse a form; return None if it is invalid."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        return None
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_FORM:
            return None
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError:
        return None
