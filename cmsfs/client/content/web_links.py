"""Web links: create and update."""

from cmsfs.client.content.items import if_match
from cmsfs.client.content.search import FIELDS_PARAM
from cmsfs.client.transport.wire import Wire
from cmsfs.models.base import Reference
from cmsfs.models.content import items, web_links


class WebLinksApi:
    """/web_links and /web_links/:id."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._url = f"{base_url}/web_links"

    async def create(
        self, url: str, parent_id: str, *, name: str | None = None, description: str | None = None
    ) -> items.WebLink:
        """Create a web link.  Raises `Conflict` if its name (by default the address) is taken."""
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
        """Change address, name, folder or description ("" removes it); None leaves it unchanged."""
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
