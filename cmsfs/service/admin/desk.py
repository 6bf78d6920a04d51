"""The context of an administrator's page: calls the API's own operations with the administrator's rights.

`Desk.ask` runs an operation's handler for the person who logged in, as if a request with a token of all
scopes had come: the same checks, the same events, the same words when something is refused.

Rule: no page writes to the database where there is an operation for it.
"""

import dataclasses
import json
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any
from urllib.parse import urlencode

import pydantic
from starlette import requests, responses

from cmsfs import errors
from cmsfs.service import problems
from cmsfs.service.access import callers, calls, scopes
from cmsfs.service.admin import notices
from cmsfs.service.api import pages
from cmsfs.service.oauth import browser_sessions
from cmsfs.service.storage.store import Store

_TABS = (
    ("", "Overview"),
    ("/users", "Users"),
    ("/groups", "Groups"),
    ("/apps", "Applications"),
    ("/holds", "Legal holds"),
    ("/retention", "Retention"),
    ("/templates", "Templates"),
    ("/cascades", "Cascades"),
    ("/webhooks", "Webhooks"),
    ("/trash", "Trash"),
    ("/events", "Events"),
)


def address(visited: browser_sessions.Visit) -> str:
    """Where the pages of a browser that has logged in are."""
    return f"{browser_sessions.ADMIN.path}/at/{visited.place}"


class Mistake(Exception):
    """A form that cannot be done, and the sentence that says why."""


@dataclass(frozen=True, slots=True)
class Desk:
    """One request of an administrator."""

    request: requests.Request
    store: Store
    user: Row
    visit: browser_sessions.Visit

    @property
    def caller(self) -> calls.Caller:
        return callers.speaks_for(self.user, "", scopes.expand(scopes.APPLICATION))

    @property
    def enterprise(self) -> int:
        number: int = self.user["enterprise"]
        return number

    @property
    def at(self) -> str:
        """What the addresses of the pages begin with."""
        return address(self.visit)

    @property
    def marker(self) -> str:
        """Where the page that is asked for begins."""
        return self.request.query_params.get("marker", "")

    def _as(self, user: Row, client_id: str) -> calls.Caller:
        """A user of the enterprise, by an application; `Mistake` if that is above this administrator."""
        try:
            callers.check_rank(self.user["role"], user)
        except problems.Refused as error:
            raise Mistake(sentence(error)) from None
        caller = callers.speaks_for(user, client_id, scopes.expand(scopes.APPLICATION))
        return caller if user["id"] == self.user["id"] else dataclasses.replace(caller, by=self.user["id"])

    async def ask(
        self,
        line: str,
        *,
        wire_id: str = "",
        body: Any = None,
        as_user: Row | None = None,
        client_id: str = "",
        **query: Any,
    ) -> Any:
        """What an operation answers, to the administrator or to `as_user`.

        Raises `Mistake` for what it refuses.
        """
        caller = self.caller if as_user is None else self._as(as_user, client_id)
        method, path = line.split()
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": urlencode({name: one for name, one in query.items() if one}).encode(),
            "headers": [],
            "path_params": {"id": wire_id},
            "app": self.request.app,
        }
        data = b"{}" if body is None else json.dumps(body).encode()
        call = calls.Call(requests.Request(scope), self.store, caller, data)
        try:
            answer = await self.request.app.operations[line].handler(call)
        except (problems.Refused, pydantic.ValidationError, errors.UserError) as error:
            raise Mistake(sentence(error)) from None
        return json.loads(answer.body or b"null")

    def page(
        self, template: str, *, form: dict[str, str] | None = None, mistake: str = "", **values: Any
    ) -> responses.Response:
        """A page; with the form as it was filled in, if that was a mistake."""
        document = pages.text(
            f"admin/{template}",
            at=self.at,
            tabs=[(self.at + path, title) for path, title in _TABS],
            here=self.request.url.path,
            user=self.user,
            proof=(browser_sessions.FIELD, self.visit.proof),
            notice=self.request.app.notices.take(self._browser) if not mistake else None,
            form=form or {},
            mistake=mistake,
            **values,
        )
        return pages.page(document, status=400 if mistake else 200)

    def done(
        self, said: str, *, to: str = "", failed: bool = False, secrets: dict[str, str] | None = None
    ) -> responses.Response:
        """Back to the page, or to the one at `to`, by a new request, which says this once."""
        notice = notices.FlashMessage(said, secrets or {}, failed)
        self.request.app.notices.put(self._browser, notice)
        return responses.RedirectResponse(
            self.at + to if to else self.request.url.path,
            303,
            {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"},
        )

    @property
    def _browser(self) -> str:
        return self.visit.door.hashed(self.visit.secret)


def sentence(error: Exception) -> str:
    """A refusal for people."""
    if isinstance(error, pydantic.ValidationError):
        return problems.from_validation(error).message
    return error.message if isinstance(error, problems.Refused) else str(error)
