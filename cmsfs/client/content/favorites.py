"""Favorites: a collection of each user; an item's membership is in its field `collections`.

Rule: an item keeps its other collections.
"""

from collections.abc import Sequence

from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.errors import NotSupported
from cmsfs.models.content import collections
from cmsfs.models.content.items import Item

PAGE = 1000
_FAVORITES = "favorites"
_SHOWN = {"fields": "collections"}


class FavoritesApi:
    """/collections, and `collections` of /files/:id, /folders/:id and /web_links/:id."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url
        self._id: str | None = None

    async def collection_id(self) -> str:
        """Return the id of the user's favorites.  Raises `NotSupported` if the service has none."""
        if self._id is None:
            found = await self._wire.ask(
                collections.Collections, "GET", f"{self._base}/collections", repeat=Repeat.READ
            )
            ids = [one.id for one in found.entries if one.collection_type == _FAVORITES]
            if not ids:
                raise NotSupported(404, "not_offered", "The service has no favorites.")
            self._id = ids[0]
        return self._id

    async def list(self, *, fields: Sequence[str] = ()) -> paging.ByOffset[Item]:
        """Return all favorites, newest first; with `fields`, only these and the mini representation."""
        url = f"{self._base}/collections/{await self.collection_id()}/items"

        async def fetch(offset: int) -> collections.CollectionItems:
            shown = paging.fields_param(fields) or FIELDS_PARAM
            params = shown | {"limit": str(PAGE), "offset": str(offset)}
            return await self._wire.ask(
                collections.CollectionItems, "GET", url, repeat=Repeat.READ, params=params
            )

        return paging.ByOffset(fetch, key=lambda item: (item.type, item.id))

    async def set(self, kind: str, item_id: str, *, is_one: bool) -> None:
        """Add an item to the favorites, or remove it.  Raises `NotFound`, and `BadRequest` for the root."""
        mine = await self.collection_id()
        url = f"{self._base}/{kind}s/{item_id}"
        found = await self._wire.ask(
            collections.ItemCollections, "GET", url, repeat=Repeat.READ, params=_SHOWN
        )
        others = [one.id for one in found.collections or () if one.id != mine]
        wanted = [{"id": one} for one in (*others, *([mine] if is_one else []))]
        await self._wire.tell("PUT", url, body={"collections": wanted})
