"""Shared links: create, remove, and resolve to the shared item.

Rule: settings that are not given are left unchanged, or are the service's defaults for a new link.
"""

from typing import Any
from urllib.parse import quote

import pydantic

from cmsfs import errors
from cmsfs.client.content import folders
from cmsfs.client.content.items import SHAPES, AnyItem, ItemKind, living
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport import paging
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import base, wire_names
from cmsfs.models.content import items

LINK = {"fields": "shared_link,item_status"}


class _Found(pydantic.RootModel[Any]):
    """An item of unknown kind."""

    model_config = base.DEFERRED
    root: items.Item


def header(url: str, password: str | None = None) -> dict[str, str]:
    """Return the header that gives a request access through a shared link."""
    text = f"shared_link={quote(url, safe=':/')}"
    if password is not None:
        text += f"&shared_link_password={quote(password, safe='')}"
    return {wire_names.LINK_HEADER: text}


class SharedLinksApi:
    """PUT /KINDs/:id with a shared link, and /shared_items."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = base_url

    async def share(
        self, kind: ItemKind, item_id: str, terms: items.NewSharedLink | None = None
    ) -> items.SharedLink:
        """Create the item's link, or change its settings to `terms`; return it."""
        found = await self._put(kind, item_id, {} if terms is None else terms.body())
        if found.shared_link is None or found.shared_link.url is None:
            raise errors.ProtocolError("the response to sharing an item has no link")
        return found.shared_link

    async def get(self, kind: ItemKind, item_id: str) -> items.SharedLink | None:
        """Return the item's link; None if it has none."""
        url = f"{self._url}/{kind}s/{item_id}"
        found = await self._wire.ask(SHAPES[kind], "GET", url, repeat=Repeat.READ, params=LINK)
        return living(found).shared_link

    async def unshare(self, kind: ItemKind, item_id: str) -> None:
        """Remove the link; a later one has another address."""
        await self._put(kind, item_id, None)

    async def _put(self, kind: ItemKind, item_id: str, link: dict[str, object] | None) -> AnyItem:
        url = f"{self._url}/{kind}s/{item_id}"
        body = {"shared_link": link}
        return await self._wire.ask(SHAPES[kind], "PUT", url, params=LINK, body=body)

    async def find(self, url: str, *, password: str | None = None) -> AnyItem:
        """Return the item that a link points to.

        Raises `NotFound` if the link gives this account no access, `Forbidden`
        (`incorrect_shared_item_password`) for a wrong password.
        """
        found = await self._wire.ask(
            _Found,
            "GET",
            f"{self._url}/shared_items",
            repeat=Repeat.READ,
            params=FIELDS_PARAM,
            headers=header(url, password),
        )
        return found.root

    def items(self, url: str, folder_id: str) -> paging.ByMarker[items.Item]:
        """Return the items of a folder behind a link without a password; pages are requested as needed."""
        return folders.items_of(self._wire, f"{self._url}/folders/{folder_id}/items", header(url))
