"""The context of an administrator's page: calls the API's own operations with the administrator's rights.

`Desk.ask_as` runs an operation as another user of the enterprise, and records who acted.

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

# Re-exported: every page uses it through this module.
from cmsfs.service.api.inner_calls import Mistake as Mistake
from cmsfs.service.api.inner_calls import message_of as message_of
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
    ("/invitations", "Invitations"),
    ("/terms", "Terms"),
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
        """Return the caller for a user of the enterprise; `Mistake` if they outrank this administrator."""
        try:
            callers.check_rank(self.user["role"], user)
        except problems.Refused as error:
            raise inner_calls.as_mistake(error) from None
        caller = callers.caller_of_user(user, client_id, scopes.expand(scopes.APPLICATION))
        return caller if user["id"] == self.user["id"] else dataclasses.replace(caller, by=self.user["id"])

    async def ask_as(
        self, user: Row, line: str, *, wire_id: str = "", body: Any = None, client_id: str = "", **query: Any
    ) -> Any:
        """Return the response of an operation to another user of the enterprise (as with `as-user`)."""
        found = await inner_calls.call_operation(
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
        """Return a page of rows by their ids, and the marker of the next one.

        The statement's parameters are the enterprise, the previous page's last id, and the limit.
        """
        after = calls.parse_id(self.marker) or 0
        found = await self.store.query(lambda read: read(sql, self.enterprise, after, limit + 1))
        return found[:limit], str(found[limit - 1]["id"]) if len(found) > limit else ""

    def find_user(self, sql: str, *args: Any, not_found: str) -> Row:
        """Return the user of the enterprise whose id a query finds; `Mistake(not_found)` if there is none."""
        found = self.store.read(
            f"SELECT * FROM account WHERE enterprise = ? AND id = ({sql})", self.enterprise, *args
        )
        if not found:
            raise Mistake(not_found)
        return found[0]

    def page(
        self, template: str, *, form: dict[str, str] | None = None, mistake: str = "", **values: Any
    ) -> responses.Response:
        """Render a page; after a mistake, with the form as it was filled in."""
        document = pages.text(
            f"admin/{template}",
            at=self.base_path,
            tabs=[(self.base_path + path, title) for path, title in _TABS],
            here=self.request.url.path,
            user=self.user,
            proof=self.proof,
            notice=None if mistake else self.message,
            form=form or {},
            mistake=mistake,
            **values,
        )
        return self.shown(pages.page(document, status=400 if mistake else 200))
