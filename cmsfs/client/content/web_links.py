"""Web links: create, change, delete, restore."""

from cmsfs.client.content.files import if_match, living
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models.base import Reference
from cmsfs.models.content import items, web_links


class WebLinksApi:
    """/web_links and /web_links/:id."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/web_links"

    async def get(self, link_id: str) -> items.WebLink:
        """Raises `NotFound`; its code is `trashed` if the web link is in the trash."""
        return living(
            await self._wire.ask(
                items.WebLink, "GET", f"{self._url}/{link_id}", repeat=Repeat.READ, params=FIELDS_PARAM
            )
        )

    async def create(
        self, url: str, parent_id: str, *, name: str | None = None, description: str | None = None
    ) -> items.WebLink:
        """Raises `Conflict` if the name, or the address in its place, is taken."""
        given = {"url": url, "parent": Reference(id=parent_id)} | ({"name": name} if name else {})
        given |= {"description": description} if description else {}
        body = web_links.NewWebLink.model_validate(given).body()
        return await self._wire.ask(items.WebLink, "POST", self._url, params=FIELDS_PARAM, body=body)

    async def update(
        self,
        link_id: str,
        *,
        url: str | None = None,
        name: str | None = None,
        parent_id: str | None = None,
        description: str | None = None,
        etag: str | None = None,
    ) -> items.WebLink:
        """Change the address, rename, move, describe ("": no more); None leaves as it is."""
        given = {"url": url, "name": name, "parent": None if parent_id is None else Reference(id=parent_id)}
        given["description"] = description
        change = web_links.UpdateWebLink.model_validate({k: v for k, v in given.items() if v is not None})
        return await self._wire.ask(
            items.WebLink,
            "PUT",
            f"{self._url}/{link_id}",
            params=FIELDS_PARAM,
            headers=if_match(etag),
            body=change.body(),
        )

    async def delete(self, link_id: str, *, etag: str | None = None) -> None:
        """Into the trash."""
        await self._wire.tell("DELETE", f"{self._url}/{link_id}", headers=if_match(etag))

    async def restore(
        self, link_id: str, *, name: str | None = None, parent_id: str | None = None
    ) -> items.WebLink:
        """Out of the trash, to where it was; to `parent_id` only if that folder is gone.

        Raises `NotFound` if it is not in the trash, `Forbidden` without the right to restore it or to the
        folder, `Conflict` if its name is taken there.
        """
        given = {"name": name, "parent": None if parent_id is None else Reference(id=parent_id)}
        body = web_links.RestoreWebLink.model_validate({k: v for k, v in given.items() if v is not None})
        return await self._wire.ask(
            items.WebLink, "POST", f"{self._url}/{link_id}", params=FIELDS_PARAM, body=body.body()
        )
