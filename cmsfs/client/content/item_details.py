"""Reads all fields of one item, and sets its description and tags."""

from typing import Literal

from cmsfs.client.content.files import living
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import items

ItemKind = Literal["file", "folder", "web_link"]

# Not asked for: a link that is made by asking (`expiring_embed_link`), a folder's content, and metadata,
# which has requests of its own.
_LEFT_OUT = {"expiring_embed_link", "item_collection", "metadata"}

_SHAPES: dict[str, type[items.File] | type[items.Folder] | type[items.WebLink]] = {
    "file": items.File,
    "folder": items.Folder,
    "web_link": items.WebLink,
}


class ItemDetailsApi:
    """/files/:id, /folders/:id and /web_links/:id with all fields."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url

    async def item(self, kind: ItemKind, item_id: str) -> items.Item:
        """Raises `NotFound`, also for what is in the trash."""
        shape = _SHAPES[kind]
        fields = [name for name in shape.model_fields if name not in _LEFT_OUT]
        url, params = f"{self._base}/{kind}s/{item_id}", {"fields": ",".join(fields)}
        return living(await self._wire.ask(shape, "GET", url, repeat=Repeat.READ, params=params))

    async def describe(
        self, kind: ItemKind, item_id: str, *, description: str | None = None, tags: list[str] | None = None
    ) -> items.Item:
        """Set description and tags; None leaves as it is, empty ones take them away.

        A web link has no tags.
        """
        given = {"description": description, "tags": tags}
        body = {key: value for key, value in given.items() if value is not None}
        url = f"{self._base}/{kind}s/{item_id}"
        return await self._wire.ask(_SHAPES[kind], "PUT", url, params=FIELDS_PARAM, body=body)
