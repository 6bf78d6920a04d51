"""Items of any kind, by kind and id: read, change, delete, restore, permanently delete.

What only files, folders or web links can do is in the module of each.
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

# Not asked for: a link that is made by asking (`expiring_embed_link`), a folder's content, and metadata,
# which has requests of its own.
_LEFT_OUT = {"expiring_embed_link", "item_collection", "metadata"}


def detail_fields(kind: str) -> list[str]:
    """All fields that the service tells of an item, by its kind."""
    return [name for name in SHAPES[kind].model_fields if name not in _LEFT_OUT]


class ItemChanges(TypedDict, total=False):
    """What `ItemsApi.update` may change; None leaves as it is."""

    name: str | None
    parent_id: str | None
    content_modified_at: datetime | None


class ItemsApi:
    """/files/:id, /folders/:id and /web_links/:id.  A kind is the service's word for it."""

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
        """Raises `NotFound`; its code is `trashed` if the item is in the trash."""
        params = FILE_PARAM if kind == "file" else FIELDS_PARAM
        return living(
            await self._wire.ask(
                SHAPES[kind], "GET", f"{self._base}/{kind}s/{item_id}", repeat=Repeat.READ, params=params
            )
        )

    async def details(self, kind: str, item_id: str) -> AnyItem:
        """All that the service says of the item.  Raises `NotFound`, also for what is in the trash."""
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
        """Rename, move (a folder with all that is below), set a file's time; None leaves as it is.

        Raises `Conflict` if the name is taken there, `PreconditionFailed` if the version is no longer
        `etag`.  A move is not protected by `etag` at every service.
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
        """Set description and tags; None leaves as it is, empty ones take them away.

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
        """Into the trash.  Raises `BadRequest` (`folder_not_empty`) for a folder that is neither empty nor to
        go with what is in it (`recursive`)."""
        query = f"?recursive={str(recursive).lower()}" if kind == "folder" else ""
        await self._wire.tell("DELETE", f"{self._base}/{kind}s/{item_id}{query}", headers=if_match(etag))

    async def delete_known(self, folder_id: str, digest: str) -> None:
        """A folder with what is in it, if that is what `known_tree.digest` was made of.

        Raises `PreconditionFailed` if not, `BadRequest` from a service that does not know this.
        """
        url = f"{self._base}/folders/{folder_id}?recursive={known_tree.RECURSIVE}"
        await self._wire.tell("DELETE", url, headers={known_tree.HEADER: digest})

    async def restore(
        self, kind: str, item_id: str, *, name: str | None = None, parent_id: str | None = None
    ) -> AnyItem:
        """Out of the trash, to where it was; to `parent_id` only if that folder is gone.

        Raises `NotFound` if it is not in the trash, `Forbidden` without the right to restore it or to the
        folder, `Conflict` if its name is taken there.
        """
        given = {"name": name, "parent": None if parent_id is None else {"id": parent_id}}
        body = {key: value for key, value in given.items() if value is not None}
        return await self._wire.ask(
            SHAPES[kind], "POST", f"{self._base}/{kind}s/{item_id}", params=FIELDS_PARAM, body=body
        )

    async def purge(self, kind: str, item_id: str) -> None:
        """Out of the trash, for good.  Raises `NotFound` if it is not there, `Forbidden` under a hold."""
        await self._wire.tell("DELETE", f"{self._base}/{kind}s/{item_id}/trash")


def living(item: T) -> T:
    """The item itself, which is not in the trash.  Raises `NotFound` (`trashed`) for one that is.

    Services show a file or web link in the trash to who asks for it by its id; its status says where it is.
    """
    if item.item_status in ("trashed", "deleted"):
        raise errors.NotFound(404, item.item_status, "The item is in the trash.")
    return item


def if_match(etag: str | None) -> Mapping[str, str] | None:
    """The header that makes a change hold only for the version it was made on."""
    return None if etag is None else {"if-match": etag}
