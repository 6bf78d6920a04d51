"""Provides the folders of `.by`: templates, and items by their metadata.

Items come from metadata queries, a hundred per page, with the values of the template's fields.  Values are
set through the file system, so that this works for items that are not uploaded yet, too.

Rule: reading changes nothing and requests no single items.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability, not_offered
from cmsfs.models import wire_names
from cmsfs.models.content import items, metadata, metadata_queries
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map, metadata_values
from cmsfs.vfs.attrs.item_fields import PREFIX
from cmsfs.vfs.virtual.metadata_listings import MetadataRow, TemplateView
from cmsfs.vfs.virtual.value_names import ValueFilter
from daemon.content.match_places import FIELDS, MatchPlaces
from daemon.core.health import Health
from daemon.fetch import path_lookup
from daemon.fetch.hydrate import Hydrator
from daemon.push.metadata_writer import FREE, TEMPLATE_SECONDS

SetValue = Callable[[Ino, str, bytes], Awaitable[object]]
GetValue = Callable[[Ino, str], Awaitable[bytes]]


class MetadataBrowser:
    """Implements `MetadataPort` of the vfs over one client."""

    def __init__(
        self,
        db: Database,
        client: Client,
        hydrator: Hydrator,
        health: Health,
        get_value: GetValue,
        set_value: SetValue,
    ) -> None:
        self._db = db
        self._client = client
        self._hydrator = hydrator
        self._health = health
        self._get_value = get_value
        self._set_value = set_value
        self._templates: tuple[float, Sequence[TemplateView]] | None = None

    @property
    def is_offline(self) -> bool:
        return not self._health.can_ask

    async def templates(self) -> Sequence[TemplateView]:
        """See `MetadataPort.templates`; offline, returns the templates read last."""
        if Ability.METADATA_QUERIES in self._client.offers.lacking:
            raise not_offered(Ability.METADATA_QUERIES)
        known = self._templates
        if known is not None and (self.is_offline or clock.monotonic() - known[0] < TEMPLATE_SECONDS):
            return known[1]
        self._health.check()
        scopes: tuple[Literal["enterprise", "global"], ...] = ("enterprise", "global")
        with self._health.request("metadata"):
            found = [
                _view(one, scope) for scope in scopes async for one in self._client.metadata.templates(scope)
            ]
        self._templates = (clock.monotonic(), sorted(found, key=lambda one: one.name))
        return self._templates[1]

    async def items(
        self, template: TemplateView, filters: Sequence[ValueFilter], most: int
    ) -> tuple[Sequence[MetadataRow], bool]:
        """See `MetadataPort.items`."""
        self._health.check()
        places = MatchPlaces(self._db)
        found: dict[tuple[object, str], MetadataRow] = {}
        query = _query(template, filters, tree.root_id(self._db))
        while True:
            with self._health.request("search"):
                page = await self._client.search.by_metadata(query)
            for item in page.entries:
                match = places.of(item)
                if match is not None and not places.is_gone(match):
                    found[match.kind, match.id] = MetadataRow(match, _values(item, template))
            if page.next_marker is None or len(found) >= most:
                return list(found.values())[:most], page.next_marker is None and len(found) <= most
            query = query.model_copy(update={"marker": page.next_marker})
            query.model_fields_set.add("marker")

    def find(self, parent: Ino, name: str) -> Ino:
        """See `MetadataPort.find`."""
        if (node := tree.find_child(self._db, parent, name)) is None:
            raise errno_map.oserror(errno.ENOENT, name)
        return node.ino

    async def find_path(self, path: str) -> Ino:
        """See `MetadataPort.find_path`."""
        try:
            return (await path_lookup.find(self._db, self._hydrator, path)).ino
        except errors.UserError:
            self._health.check()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    async def options(self, ino: Ino, template: TemplateView, field: str) -> list[str]:
        """See `MetadataPort.options`."""
        try:
            text = (await self._get_value(ino, _attribute(template, field))).decode()
        except OSError as error:
            if error.errno == errno.ENODATA:
                return []
            raise
        value = metadata_values.parse(template.fields[field], text) if text else []
        return [str(one) for one in value]

    async def assign(self, ino: Ino, template: TemplateView, field: str, text: str) -> None:
        """See `MetadataPort.assign`."""
        await self._set_value(ino, _attribute(template, field), text.encode())


def _view(template: metadata.Template, scope: Literal["enterprise", "global"]) -> TemplateView:
    key = template.template_key or template.id
    return TemplateView(
        # The name used by `user.cms.metadata` and searches.
        name=key if scope == "enterprise" else f"global.{key}",
        scope=template.scope or scope,
        key=key,
        title=template.display_name or key,
        fields={one.key: one for one in template.fields or ()},
        is_free=scope == "global" and key == FREE,
        is_hidden=bool(template.hidden),
    )


def _attribute(template: TemplateView, field: str) -> str:
    scope = "global" if template.scope == "global" else "enterprise"
    return f"{PREFIX}{metadata_values.WORD}.{scope}.{template.key}.{field}"


def _query(
    template: TemplateView, filters: Sequence[ValueFilter], root: str
) -> metadata_queries.MetadataQuery:
    conditions: list[str] = []
    params: dict[str, Any] = {}

    def compare(field: str, sign: str, value: Any) -> None:
        name = f"v{len(params)}"
        params[name] = [value] if sign == "HASANY" else value
        conditions.append(f'"{field}" {sign} :{name}')

    for one in filters:
        if one.type == "multiSelect":
            compare(one.field, "HASANY", one.low)
        elif one.low is not None and one.low == one.high:
            compare(one.field, "=", one.low)
        else:
            for sign, end in ((">=", one.low), ("<=", one.high)):
                if end is not None:
                    compare(one.field, sign, end)
    place = f"metadata.{template.scope}.{template.key}"
    asked: dict[str, Any] = {
        "from": f"{template.scope}.{template.key}",
        "ancestor_folder_id": root or wire_names.ROOT_ID,
        "fields": [*FIELDS, *(f"{place}.{field}" for field in list(template.fields)[:_MOST_FIELDS])],
        "limit": metadata_queries.MAX_LIMIT,
    }
    if conditions:
        asked |= {"query": " AND ".join(conditions), "query_params": params}
    return metadata_queries.MetadataQuery.model_validate(asked)


# A query may name at most a hundred fields of an item.
_MOST_FIELDS = 90


def _values(item: items.Item, template: TemplateView) -> dict[str, Any]:
    given: dict[str, Any] = getattr(item, "metadata", None) or {}
    instance = given.get(template.scope, {}).get(template.key, {})
    return {name: value for name, value in instance.items() if not name.startswith("$")}
