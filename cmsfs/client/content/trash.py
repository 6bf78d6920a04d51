"""The trash: list, restore, permanently delete.

Only what was deleted itself is in the trash; what is below a deleted folder goes with it.
"""

from typing import Literal

from cmsfs.client.content.folders import PAGE
from cmsfs.client.content.search import FIELDS, FIELDS_PARAM
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.base import Reference
from cmsfs.models.content import items
from cmsfs.models.content.items import Item  # by name: `Trash.items` hides the module
from cmsfs.models.paging import MarkerPage

TrashKind = Literal["file", "folder", "web_link"]

# What is told of an item in the trash: also when it goes, and who put it there, which is who changed it last.
TRASH_FIELDS = (*FIELDS, "purged_at", "created_by", "modified_by")

_SHAPES: dict[str, type[items.File | items.Folder | items.WebLink]] = {
    "file": items.File,
    "folder": items.Folder,
    "web_link": items.WebLink,
}


class TrashApi:
    """/folders/trash/items, POST /KINDs/:id and DELETE /KINDs/:id/trash."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = base_url

    def items(self) -> paging.ByMarker[Item]:
        """What the caller may restore, page by page as it is asked for."""
        return paging.ByMarker(self.page)

    async def page(self, marker: str | None) -> MarkerPage[Item]:
        """A page of it, with `TRASH_FIELDS`; it may be short, or empty, while there is a next one."""
        params = {"fields": ",".join(TRASH_FIELDS), "usemarker": "true", "limit": str(PAGE)}
        if marker is not None:
            params["marker"] = marker
        url = f"{self._url}/folders/trash/items"
        return await self._wire.ask(MarkerPage[Item], "GET", url, repeat=Repeat.READ, params=params)

    async def restore(
        self, kind: TrashKind, item_id: str, *, name: str | None = None, parent_id: str | None = None
    ) -> Item:
        """Back to where it was; to `parent_id` only if that folder is gone.

        Raises `NotFound` if it is not in the trash, `Forbidden` without the right, `Conflict` if the name
        is taken there.
        """
        given = {"name": name, "parent": None if parent_id is None else Reference(id=parent_id)}
        body = items.Restore.model_validate({key: v for key, v in given.items() if v is not None})
        return await self._wire.ask(
            _SHAPES[kind], "POST", f"{self._url}/{kind}s/{item_id}", params=FIELDS_PARAM, body=body.body()
        )

    async def purge(self, kind: TrashKind, item_id: str) -> None:
        """Delete for good.  Raises `NotFound` if it is not in the trash, `Forbidden` under a hold."""
        await self._wire.tell("DELETE", f"{self._url}/{kind}s/{item_id}/trash")
