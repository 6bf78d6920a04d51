"""The trash: list.  `ItemsApi` restores and permanently deletes.

Only what was deleted itself is in the trash; what is below a deleted folder goes with it.
"""

from cmsfs.client.content.folders import PAGE
from cmsfs.client.content.search import FIELDS
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content.items import Item  # by name: `TrashApi.items` hides the module
from cmsfs.models.paging import MarkerPage

# What is told of an item in the trash: also when it goes, and who put it there, which is who changed it last.
TRASH_FIELDS = (*FIELDS, "purged_at", "created_by", "modified_by")


class TrashApi:
    """/folders/trash/items."""

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
