"""The listing of the trash.  `ItemsApi` restores and permanently deletes.

The trash lists only items that were deleted themselves, not the items below a deleted folder.
"""

from cmsfs.client.content.folders import PAGE
from cmsfs.client.content.search import FIELDS
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content.items import Item  # by name: `TrashApi.items` hides the module
from cmsfs.models.paging import MarkerPage

# Also when an item will be purged, and who deleted it (the last to modify it).
TRASH_FIELDS = (*FIELDS, "purged_at", "created_by", "modified_by")


class TrashApi:
    """/folders/trash/items."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = base_url

    def items(self) -> paging.ByMarker[Item]:
        """Return the items that the caller may restore; pages are requested as needed."""
        return paging.ByMarker(self.page)

    async def page(self, marker: str | None) -> MarkerPage[Item]:
        """Return a page with `TRASH_FIELDS`; it may be short or empty although there is a next one."""
        params = {"fields": ",".join(TRASH_FIELDS), "usemarker": "true", "limit": str(PAGE)}
        if marker is not None:
            params["marker"] = marker
        url = f"{self._url}/folders/trash/items"
        return await self._wire.ask(MarkerPage[Item], "GET", url, repeat=Repeat.READ, params=params)
