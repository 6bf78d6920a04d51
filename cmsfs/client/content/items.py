"""Items of any kind, by kind and id: get, update, delete, restore, permanently delete.

Operations of only files, folders or web links are in their own modules.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict, TypeVar, Unpack, overload

from cmsfs import errors
from cmsfs.client.content.search import FIELDS_PARAM, FILE_PARAM
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.content import items, known_tree

ItemKind = Literal["file", "folder", "web_link"]
AnyItem = items.File | items.Folder | items.WebLink
T = TypeVar("T", items.File, items.Folder, items.WebLink, AnyItem)

SHAPES: dict[str, type[AnyItem]] = {
    "file": items.File,
    "folder": items.Folder,
    "web_link": items.WebLink,
}

# Not requested: a link that is created by the request (`expiring_embed_link`), a folder's items, and
# metadata, which has its own requests.
_EXCLUDED = {"expiring_embed_link", "item_collection", "metadata"}


def detail_fields(kind: str) -> list[str]:
    """Return all fields to request for the details of an item, by its kind."""
    return [name for name in SHAPES[kind].model_fields if name not in _EXCLUDED]


class ItemChanges(TypedDict, total=False):
    """The changes for `ItemsApi.update`; None leaves a field unchanged."""

    name: str | None
    parent_id: str | None
    content_modified_at: datetime | None


class ItemsApi:
    """/files/:id, /folders/:id and /web_links/:id; `kind` is the service's type of the item."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url

    @overload
    async def get(self, kind: Literal["file"], item_id: str) -> items.File: ...

    @overload
    async def get(self, kind: Literal["folder"], item_id: str) -> items.Folder: ...

    @overload
    async def get(self, kind: str, item_id: str) -> AnyItem: ...

    async def get(self, kind: str, item_id: str) -> AnyItem:
        """Return an item.  Raises `NotFound`, with the code `trashed` if it is in the trash."""
        params = FILE_PARAM if kind == "file" else FIELDS_PARAM
        return living(
            await self._wire.ask(
                SHAPES[kind], "GET", f"{self._base}/{kind}s/{item_id}", repeat=Repeat.READ, params=params
            )
        )

    async def details(self, kind: str, item_id: str) -> AnyItem:
        """Return an item with all fields.  Raises `NotFound`, also if it is in the trash."""
        shape, params = SHAPES[kind], {"fields": ",".join(detail_fields(kind))}
        return living(
            await self._wire.ask(
                shape, "GET", f"{self._base}/{kind}s/{item_id}", repeat=Repeat.READ, params=params
            )
        )

    @overload
    async def update(
        self, kind: Literal["file"], item_id: str, *, etag: str | None = None, **changes: Unpack[ItemChanges]
    ) -> items.File: ...

    @overload
    async def update(
        self, kind: str, item_id: str, *, etag: str | None = None, **changes: Unpack[ItemChanges]
    ) -> AnyItem: ...

    async def update(
        self, kind: str, item_id: str, *, etag: str | None = None, **changes: Unpack[ItemChanges]
    ) -> AnyItem:
        """Rename or move an item (a folder with everything below), or set a file's time; None: unchanged.

        Raises `Conflict` if the name is taken there, `PreconditionFailed` if the version is no longer
        `etag`.  Some services do not check `etag` for moves.
        """
        given = {key: value for key, value in changes.items() if value is not None}
        if "parent_id" in given:
            given["parent"] = {"id": given.pop("parent_id")}
        change = items.UpdateItem.model_validate(given)
        return await self._wire.ask(
            SHAPES[kind],
            "PUT",
            f"{self._base}/{kind}s/{item_id}",
            params=FIELDS_PARAM,
            headers=if_match(etag),
            body=change.body(),
        )

    async def describe(
        self, kind: str, item_id: str, *, description: str | None = None, tags: list[str] | None = None
    ) -> AnyItem:
        """Set description and tags; None leaves them unchanged, empty ones remove them.

        A web link has no tags.
        """
        given = {"description": description, "tags": tags}
        body = {key: value for key, value in given.items() if value is not None}
        return await self._wire.ask(
            SHAPES[kind], "PUT", f"{self._base}/{kind}s/{item_id}", params=FIELDS_PARAM, body=body
        )

    async def delete(
        self, kind: str, item_id: str, *, recursive: bool = False, etag: str | None = None
    ) -> None:
        """Move an item to the trash.  Raises `BadRequest` (`folder_not_empty`) for a non-empty folder
        unless `recursive`."""
        query = f"?recursive={str(recursive).lower()}" if kind == "folder" else ""
        await self._wire.tell("DELETE", f"{self._base}/{kind}s/{item_id}{query}", headers=if_match(etag))

    async def delete_known(self, folder_id: str, digest: str) -> None:
        """Delete a folder with its contents, if they match `digest` (see `known_tree.digest`).

        Raises `PreconditionFailed` if not, `BadRequest` if the service does not support this.
        """
        url = f"{self._base}/folders/{folder_id}?recursive={known_tree.RECURSIVE}"
        await self._wire.tell("DELETE", url, headers={known_tree.HEADER: digest})

    async def restore(
        self, kind: str, item_id: str, *, name: str | None = None, parent_id: str | None = None
    ) -> AnyItem:
        """Restore an item from the trash to its original folder; to `parent_id` only if that folder is gone.

        Raises `NotFound` if it is not in the trash, `Forbidden` without permission for the item or the
        folder, `Conflict` if its name is taken there.
        """
        given = {"name": name, "parent": None if parent_id is None else {"id": parent_id}}
        body = {key: value for key, value in given.items() if value is not None}
        return await self._wire.ask(
            SHAPES[kind], "POST", f"{self._base}/{kind}s/{item_id}", params=FIELDS_PARAM, body=body
        )

    async def purge(self, kind: str, item_id: str) -> None:
        """Permanently delete an item in the trash.  Raises `NotFound`, and `Forbidden` under a legal hold."""
        await self._wire.tell("DELETE", f"{self._base}/{kind}s/{item_id}/trash")


def living(item: T) -> T:
    """Return the item.  Raises `NotFound` (`trashed`) if it is in the trash.

    Services return files and web links in the trash when requested by id; their status tells where they are.
    """
    if item.item_status in ("trashed", "deleted"):
        raise errors.NotFound(404, item.item_status, "The item is in the trash.")
    return item


def if_match(etag: str | None) -> Mapping[str, str] | None:
    """Return the header that makes a change conditional on the item's version."""
    return None if etag is None else {"if-match": etag}
