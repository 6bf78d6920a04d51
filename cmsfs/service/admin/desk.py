"""The context of an administrator's page: calls the API's own operations with the administrator's rights.

`Desk.ask_as` runs an operation for another user of the enterprise, and says who was asked to.

Rule: no page writes to the database where there is an operation for it.
"""

import dataclasses
import json
from dataclasses import dataclass
from sqlite3 import Row
from typing import Any

from starlette import responses

from cmsfs.service import problems
from cmsfs.service.access import callers, calls, scopes
from cmsfs.service.api import inner_calls, pages

# Every page speaks of these as what its desk is about.
from cmsfs.service.api.inner_calls import Mistake as Mistake
from cmsfs.service.api.inner_calls import sentence as sentence
from cmsfs.service.oauth.page_sessions import PageSession

_TABS = (
    ("", "Overview"),
    ("/users", "Users"),
    ("/groups", "Groups"),
    ("/apps", "Applications"),
    ("/holds", "Legal holds"),
    ("/retention", "Retention"),
    ("/templates", "Templates"),
    ("/cascades", "Cascades"),
    ("/collaborations", "Collaborations"),
    ("/links", "Links"),
    ("/exemptions", "Domains"),
    ("/webhooks", "Webhooks"),
    ("/trash", "Trash"),
    ("/events", "Events"),
)


@dataclass(frozen=True, slots=True)
class Desk(PageSession):
    """One request of an administrator."""

    @property
    def enterprise(self) -> int:
        number: int = self.user["enterprise"]
        return number

    def _as(self, user: Row, client_id: str) -> calls.Caller:
        """A user of the enterprise, by an application; `Mistake` if that is above this administrator."""
        try:
            callers.check_rank(self.user["role"], user)
        except problems.Refused as error:
            raise inner_calls.mistake(error) from None
        caller = callers.speaks_for(user, client_id, scopes.expand(scopes.APPLICATION))
        return caller if user["id"] == self.user["id"] else dataclasses.replace(caller, by=self.user["id"])

    async def ask_as(
        self, user: Row, line: str, *, wire_id: str = "", body: Any = None, client_id: str = "", **query: Any
    ) -> Any:
        """What an operation answers to another user of the enterprise, as with the `as-user` header."""
        found = await inner_calls.answer(
            self.request,
            self.store,
            self._as(user, client_id),
            line,
            wire_id=wire_id,
            body=body,
            query=query,
        )
        return json.loads(bytes(found.body) or b"null")

    async def rows(self, sql: str, limit: int) -> tuple[list[Row], str]:
        """A page of rows by their ids, and the marker of the next one.

        The statement's parameters are the enterprise, the id before the first, and how many.
        """
        after = calls.parse_id(self.marker) or 0
        found = await self.store.query(lambda read: read(sql, self.enterprise, after, limit + 1))
        return found[:limit], str(found[limit - 1]["id"]) if len(found) > limit else ""

    def person(self, sql: str, *args: Any, gone: str) -> Row:
        """The user of the enterprise whose id a statement finds; `Mistake(gone)` if there is none."""
        found = self.store.read(
            f"SELECT * FROM account WHERE enterprise = ? AND id = ({sql})", self.enterprise, *args
        )
        if not found:
            raise Mistake(gone)
        return found[0]

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
            proof=self.proof,
            notice=None if mistake else self.take_notice(),
            form=form or {},
            mistake=mistake,
            **values,
        )
        return pages.page(document, status=400 if mistake else 200)
