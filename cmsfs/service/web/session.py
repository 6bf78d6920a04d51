"""The context of a person's page: who looks, what they may ask, and how items look in lists.

Rule: a name is a text, whatever it looks like; what is inside a file is shown as what the service made of it.
"""

from dataclasses import dataclass
from typing import Any

from starlette import responses

from cmsfs.runtime import chance
from cmsfs.service.api import pages
from cmsfs.service.api.inner_calls import Mistake as Mistake
from cmsfs.service.oauth.page_sessions import PageSession

PAGE = 100

# What lists show of an item.
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
    """One request of a person."""

    @property
    def kind(self) -> str:
        """The kind of the item in the path; `Mistake` if there is none of that name."""
        kind: str = self.request.path_params["kind"]
        if kind not in KINDS:
            raise Mistake("There is no such page.", status=404, code="not_found")
        return kind

    @property
    def id(self) -> str:
        """The id in the path."""
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
        """A page; with the form as it was filled in, if that was a mistake."""
        nonce = chance.token_urlsafe(16)
        document = pages.text(
            f"web/{template}",
            at=self.at,
            tabs=[(self.at + path, title) for path, title in _TABS],
            here=self.request.url.path,
            user=self.user,
            proof=self.proof,
            notice=None if mistake else self.take_notice(),
            form=form or {},
            mistake=mistake,
            nonce=nonce,
            script=pages.script()[1],
            **values,
        )
        return pages.page(document, status=400 if mistake else status, pictures=True, nonce=nonce)

    def entry(self, item: dict[str, Any]) -> dict[str, Any]:
        """An item as lists show it."""
        kind, wire_id = item["type"], item["id"]
        place = f"/folders/{wire_id}" if kind == "folder" else f"/items/{kind}/{wire_id}"
        changed = item.get("content_modified_at") or item.get("modified_at") or ""
        return {
            "kind": kind,
            "id": wire_id,
            "name": item["name"],
            "size": item.get("size") if kind == "file" else None,
            "changed": moment(changed),
            "place": self.at + place,
            "details": f"{self.at}/items/{kind}/{wire_id}",
            "is_shared": bool(item.get("shared_link") or item.get("has_collaborations")),
            "may_download": bool((item.get("permissions") or {}).get("can_download")),
        }


def moment(timestamp: str) -> str:
    """A time of the API for people: to the minute."""
    return timestamp[:16].replace("T", " ")
