"""A request of somebody who has logged in to pages of the service: who it is, and what they may ask.

`PageSession.ask` runs an operation's handler for the person, as if a request with a token of all scopes had
come.  What is to be said after a form waits in memory for the next page of that browser.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from starlette import requests, responses

from cmsfs.service.access import callers, calls, scopes
from cmsfs.service.api import inner_calls, notices
from cmsfs.service.oauth import browser_sessions
from cmsfs.service.storage.store import Store


def address(visited: browser_sessions.Visit) -> str:
    """Where the pages of a browser that has logged in are."""
    return f"{visited.door.path}/at/{visited.place}"


@dataclass(frozen=True, slots=True)
class PageSession:
    """One request of a person at a browser."""

    request: requests.Request
    store: Store
    user: Row
    visit: browser_sessions.Visit

    @property
    def caller(self) -> calls.Caller:
        return callers.speaks_for(self.user, "", scopes.expand(scopes.APPLICATION))

    @property
    def at(self) -> str:
        """What the addresses of the pages begin with."""
        return address(self.visit)

    @property
    def marker(self) -> str:
        """Where the page that is asked for begins."""
        return self.request.query_params.get("marker", "")

    @property
    def proof(self) -> tuple[str, str]:
        """The hidden field that forms carry."""
        return browser_sessions.FIELD, self.visit.proof

    async def ask(
        self,
        line: str,
        *,
        wire_id: str = "",
        body: Any = None,
        params: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Any:
        """What an operation answers.  Raises `Mistake` for what it refuses."""
        found = await inner_calls.answer(
            self.request,
            self.store,
            self.caller,
            line,
            wire_id=wire_id,
            params=params,
            body=body,
            query=query,
        )
        return json.loads(bytes(found.body) or b"null")

    def take_notice(self) -> notices.FlashMessage | None:
        """What is to be said on this page, once."""
        found: notices.FlashMessage | None = self.request.app.notices.take(self._browser)
        return found

    def done(
        self, said: str, *, to: str = "", failed: bool = False, secrets: dict[str, str] | None = None
    ) -> responses.Response:
        """Back to the page, or to the one at `to`, by a new request, which says this once."""
        self.request.app.notices.put(self._browser, notices.FlashMessage(said, secrets or {}, failed))
        return self.go(to)

    def go(self, to: str = "") -> responses.Response:
        """Lead the browser to the page at `to`, or to where its form came from."""
        where = self.at + to if to else self.request.url.path
        return responses.RedirectResponse(
            where, 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        )

    @property
    def _browser(self) -> str:
        return self.visit.door.hashed(self.visit.secret)
