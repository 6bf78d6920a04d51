"""The folders endpoint: create, list one level, read permissions and paths."""

from collections.abc import Mapping
from typing import TypeVar

from cmsfs.client.content.items import living
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.base import Reference
from cmsfs.models.content import entries, items
from cmsfs.models.content.items import Item  # by name: `FoldersApi.items` hides the module
from cmsfs.models.paging import MarkerPage

P = TypeVar("P", entries.EntryPage, entries.EntryMarkerPage)

PAGE = 1000  # the maximum of items per page


class FoldersApi:
    """/folders/:id and the paths below it."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/folders"

    async def page(self, folder_id: str, *, offset: int = 0, limit: int = PAGE) -> entries.EntryPage:
        """Return a page of a folder's items by offset, with the total; pages can be requested in parallel."""
        params = FIELDS_PARAM | {"limit": str(limit), "offset": str(offset)}
        return await self._listing(entries.EntryPage, folder_id, params)

    async def page_after(self, folder_id: str, marker: str | None) -> entries.EntryMarkerPage:
        """Return a page of a folder's items by marker: concurrent changes do not hide other items."""
        params = FIELDS_PARAM | {"limit": str(PAGE), "usemarker": "true"}
        return await self._listing(
            entries.EntryMarkerPage, folder_id, params | ({"marker": marker} if marker else {})
        )

    async def _listing(self, shape: type[P], folder_id: str, params: dict[str, str]) -> P:
        url = f"{self._url}/{folder_id}/items"
        return await self._wire.ask(shape, "GET", url, repeat=Repeat.READ, params=params)

    async def create(self, name: str, parent_id: str) -> items.Folder:
        """Create a folder.  Raises `Conflict`, with the existing item, if the name is taken."""
        body = items.NewFolder(name=name, parent=Reference(id=parent_id)).body()
        return await self._wire.ask(items.Folder, "POST", self._url, params=FIELDS_PARAM, body=body)

    async def copy(self, folder_id: str, *, parent_id: str, name: str) -> items.Folder:
        """Copy a folder with all its contents at the service; return the new folder.  Raises `Conflict` if
        the name is taken."""
        body = items.CopyItem(parent=Reference(id=parent_id), name=name).body()
        url = f"{self._url}/{folder_id}/copy"
        return await self._wire.ask(items.Folder, "POST", url, params=FIELDS_PARAM, body=body)

    async def permissions(self, folder_id: str) -> items.Permissions | None:
        """Return this account's permissions for the folder; None if the service does not report them."""
        url, params = f"{self._url}/{folder_id}", {"fields": "permissions"}
        return (await self._wire.ask(items.Folder, "GET", url, repeat=Repeat.READ, params=params)).permissions

    async def origin(self, folder_id: str) -> items.Folder:
        """Return only who created the folder and when; None for what the service does not report."""
        url, params = f"{self._url}/{folder_id}", {"fields": "created_by,created_at"}
        return await self._wire.ask(items.Folder, "GET", url, repeat=Repeat.READ, params=params)

    async def path(self, folder_id: str) -> str:
        """Return the folder's path from the root, with a leading `/`.  Raises `NotFound`, also if trashed."""
        url, params = f"{self._url}/{folder_id}", {"fields": "name,path_collection,item_status"}
        found = living(await self._wire.ask(items.Folder, "GET", url, repeat=Repeat.READ, params=params))
        above = found.path_collection.entries if found.path_collection else []
        # The first is the root, whose name is not part of the path; the root itself has no ancestors.
        names = [*(one.name for one in above), found.name]
        return "/" + "/".join(name or "" for name in names[1:])

    def items(self, folder_id: str) -> paging.ByMarker[Item]:
        """Return the folder's items; pages are requested as needed."""
        return items_of(self._wire, f"{self._url}/{folder_id}/items")


def items_of(wire: Wire, url: str, headers: Mapping[str, str] | None = None) -> paging.ByMarker[Item]:
    """Return the entries of a listing (of a folder or the trash); pages are requested as needed."""

    async def fetch(marker: str | None) -> MarkerPage[Item]:
        params = FIELDS_PARAM | {"usemarker": "true", "limit": str(PAGE)}
        if marker is not None:
            params["marker"] = marker
        return await wire.ask(
            MarkerPage[Item], "GET", url, repeat=Repeat.READ, params=params, headers=headers
        )

    return paging.ByMarker(fetch)
