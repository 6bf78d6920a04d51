"""The context of a user's page: the user, calls of the API, and how lists show items.

Rule: names are always treated as text; the content of a file is shown only as the service's renditions.
"""

from dataclasses import dataclass
from typing import Any

from starlette import responses

from cmsfs.runtime import chance
from cmsfs.service.api import pages
from cmsfs.service.api.inner_calls import Mistake as Mistake
from cmsfs.service.oauth.page_sessions import PageSession

PAGE = 100

# The fields of items that lists show.
FIELDS = "name,size,content_modified_at,modified_at,shared_link,has_collaborations,extension,url,permissions"

KINDS = ("file", "folder", "web_link")

_TABS = (
    ("/folders/0", "Files"),
    ("/recent", "Recent"),
    ("/favorites", "Favorites"),
    ("/shared", "Shared"),
    ("/trash", "Trash"),
)


@dataclass(frozen=True, slots=True)
class WebSession(PageSession):
    """One request of a user."""

    @property
    def kind(self) -> str:
        """Return the kind of the item in the path; `Mistake` if there is no such kind."""
        kind: str = self.request.path_params["kind"]
        if kind not in KINDS:
            raise Mistake("There is no such page.", status=404, code="not_found")
        return kind

    @property
    def id(self) -> str:
        """Return the id in the path."""
        wire_id: str = self.request.path_params["id"]
        return wire_id

    def page(
        self,
        template: str,
        *,
        form: dict[str, str] | None = None,
        mistake: str = "",
        status: int = 200,
        **values: Any,
    ) -> responses.Response:
        """Render a page; after a mistake, with the form as it was filled in."""
        nonce = chance.token_urlsafe(16)
        document = pages.text(
            f"web/{template}",
            at=self.base_path,
            tabs=[(self.base_path + path, title) for path, title in _TABS],
            here=self.request.url.path,
            user=self.user,
            proof=self.proof,
            notice=None if mistake else self.message,
            form=form or {},
            mistake=mistake,
            nonce=nonce,
            script=pages.script()[1],
            **values,
        )
        status = 400 if mistake else status
        return self.shown(pages.page(document, status=status, pictures=True, nonce=nonce))

    def entry(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an item for a list."""
        kind, wire_id = item["type"], item["id"]
        place = f"/folders/{wire_id}" if kind == "folder" else f"/items/{kind}/{wire_id}"
        changed = item.get("content_modified_at") or item.get("modified_at") or ""
        return {
            "kind": kind,
            "id": wire_id,
            "name": item["name"],
            "size": item.get("size") if kind == "file" else None,
            "changed": format_time(changed),
            "place": self.base_path + place,
            "details": f"{self.base_path}/items/{kind}/{wire_id}",
            "is_shared": bool(item.get("shared_link") or item.get("has_collaborations")),
            "may_download": bool((item.get("permissions") or {}).get("can_download")),
        }


def format_time(timestamp: str) -> str:
    """Format an API time for people, to the minute."""
    return timestamp[:16].replace("T", " ")
