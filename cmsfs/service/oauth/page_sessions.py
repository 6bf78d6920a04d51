"""The session of a user who has logged in to pages of the service, and calls of API operations for them.

`PageSession.ask` runs an operation's handler for the user, as for a request with a token of all scopes.
Messages after a form are kept by the browser, until its next page shows them.
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
    """Return the base path of the pages of a logged-in browser."""
    return f"{visited.login_kind.path}/at/{visited.path_secret}"


@dataclass(frozen=True, slots=True)
class PageSession:
    """One request of a logged-in user's browser."""

    request: requests.Request
    store: Store
    user: Row
    visit: browser_sessions.Visit

    @property
    def caller(self) -> calls.Caller:
        return callers.caller_of_user(self.user, "", scopes.expand(scopes.APPLICATION))

    @property
    def base_path(self) -> str:
        """Return the base path of the pages."""
        return address(self.visit)

    @property
    def marker(self) -> str:
        """Return the paging marker of the request."""
        return self.request.query_params.get("marker", "")

    @property
    def proof(self) -> tuple[str, str]:
        """Return the hidden field with the CSRF token that forms carry."""
        return browser_sessions.FIELD, self.visit.csrf_token

    async def ask(
        self,
        line: str,
        *,
        wire_id: str = "",
        body: Any = None,
        params: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Any:
        """Return the response of an operation.  Raises `Mistake` if it refuses."""
        found = await inner_calls.call_operation(
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

    @property
    def message(self) -> notices.FlashMessage | None:
        """Return the message to show on this page; the response must be passed to `shown`."""
        sealed = self.request.cookies.get(self._message_cookie)
        return None if sealed is None else notices.unseal(sealed, self.visit.secret)

    def shown(self, response: responses.Response) -> responses.Response:
        """Have the browser forget the message that this page shows."""
        if self._message_cookie in self.request.cookies:
            self._set_message(response, "", max_age=0)
        return response

    def done(
        self, message: str, *, to: str = "", failed: bool = False, secrets: dict[str, str] | None = None
    ) -> responses.Response:
        """Redirect to the page, or to the one at `to`, which shows this message once."""
        response = self.go(to)
        sealed = notices.seal(notices.FlashMessage(message, secrets or {}, failed), self.visit.secret)
        self._set_message(response, sealed, max_age=notices.LIFETIME_SECONDS)
        return response

    def go(self, to: str = "") -> responses.Response:
        """Redirect the browser to the page at `to`, or to the page of the form."""
        where = self.base_path + to if to else self.request.url.path
        return responses.RedirectResponse(
            where, 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
        )

    def _set_message(self, response: responses.Response, value: str, *, max_age: int) -> None:
        response.set_cookie(
            self._message_cookie,
            value,
            max_age=max_age,
            path=self.base_path,
            httponly=True,
            samesite="strict",
            secure=self.request.url.scheme == "https",
        )

    @property
    def _message_cookie(self) -> str:
        return f"{self.visit.login_kind.name(self.request)}_message"
