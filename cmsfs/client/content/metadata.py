"""Metadata templates of the enterprise, and metadata instances on files and folders."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cmsfs.client.transport.paging import ByMarker, pages
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging
from cmsfs.models.content import metadata

Scope = Literal["global", "enterprise"]
Kind = Literal["file", "folder"]


class MetadataApi:
    """/metadata_templates, and /metadata below files and folders."""

    def __init__(self, wire: Wire, base_url: str) -> None:
        self._wire = wire
        self._base = base_url
        self._url = f"{base_url}/metadata_templates"

    def templates(self, scope: Scope = "enterprise") -> ByMarker[metadata.Template]:
        return pages(self._wire, paging.MarkerPage[metadata.Template], f"{self._url}/{scope}")

    async def template(self, key: str, scope: str = "enterprise") -> metadata.Template:
        url = f"{self._url}/{scope}/{key}/schema"
        return await self._wire.ask(metadata.Template, "GET", url, repeat=Repeat.READ)

    async def create_template(self, wish: metadata.NewTemplate) -> metadata.Template:
        """Create a template.  Raises `Conflict` if its key is taken."""
        return await self._wire.ask(metadata.Template, "POST", f"{self._url}/schema", body=wish.body())

    async def delete_template(self, key: str, scope: Scope = "enterprise") -> None:
        """Permanently delete a template with all instances.  Raises `Forbidden` for a scope of others."""
        await self._wire.tell("DELETE", f"{self._url}/{scope}/{key}/schema")

    async def instances(self, kind: Kind, item_id: str) -> list[metadata.Instance]:
        url = f"{self._base}/{kind}s/{item_id}/metadata"
        return (await self._wire.ask(metadata.Instances, "GET", url, repeat=Repeat.READ)).entries

    async def put(
        self, kind: Kind, item_id: str, key: str, values: Mapping[str, Any], scope: str = "enterprise"
    ) -> metadata.Instance:
        """Create an instance on an item.  Raises `Conflict` if it has one of this template."""
        url = f"{self._base}/{kind}s/{item_id}/metadata/{scope}/{key}"
        return await self._wire.ask(metadata.Instance, "POST", url, body=dict(values))

    async def patch(
        self,
        kind: Kind,
        item_id: str,
        key: str,
        operations: Sequence[metadata.PatchStep],
        scope: str = "enterprise",
    ) -> metadata.Instance:
        """Apply a JSON Patch to an instance, atomically.  Raises `Conflict` if a `test` fails."""
        url = f"{self._base}/{kind}s/{item_id}/metadata/{scope}/{key}"
        headers = {"content-type": "application/json-patch+json"}
        body = [one.body() for one in operations]
        return await self._wire.ask(metadata.Instance, "PUT", url, headers=headers, body=body)

    async def remove(self, kind: Kind, item_id: str, key: str, scope: Scope = "enterprise") -> None:
        await self._wire.tell("DELETE", f"{self._base}/{kind}s/{item_id}/metadata/{scope}/{key}")
