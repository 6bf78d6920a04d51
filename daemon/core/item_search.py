"""Finds single items by search, for services without access by ID.

The creation time of an item never changes, and few are created in the same second: it finds the item wherever
it is and whatever its name.  An item in neither the search results nor the trash may be gone, or not indexed
yet.

Callers report the outcome to the drive's health; `NotShown` says nothing about it.

Rule: an item counts as gone only if it is in the trash, or is a folder below which nothing can be searched.
"""

import json
from collections.abc import Sequence
from datetime import UTC, timedelta

from cmsfs import errors
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.models import base, wire_names
from cmsfs.models.content import items
from cmsfs.models.content.search import MAX_LIMIT, Query, TimeRange
from cmsfs.replica import tree
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# Index lag of searches: ten minutes in most cases, according to services.
INDEX_LAG = timedelta(minutes=30)

_SECOND = timedelta(seconds=1)


async def look_at(db: Database | None, client: Client, kind: NodeKind, item_id: str) -> items.Item:
    """Return the item as the service has it now: by its ID, or by `find` where that is not offered."""
    if Ability.ITEMS in client.offers.lacking:
        return await find(db, client, kind, item_id)
    return await client.items.get(kind, item_id)


async def find(
    db: Database | None,
    client: Client,
    kind: NodeKind,
    item_id: str,
    *,
    fields: Sequence[str] = (),
) -> items.Item:
    """Return the item as the index has it, with these fields in addition to those of listings.

    Raises `NotFound` if it is gone, `NotShown` if that is not known.
    """
    query = _about(db, kind, item_id)
    if fields:
        query = query.model_copy(update={"fields": list(fields)})
        query.model_fields_set.add("fields")
    if (found := await _among(client, query, item_id)) is not None:
        return found
    trashed = query.model_copy(update={"trash_content": "trashed_only"})
    trashed.model_fields_set.add("trash_content")
    if await _among(client, trashed, item_id) is not None:
        raise errors.NotFound(404, "trashed", "The item is in the trash.")
    if kind is NodeKind.FOLDER:
        await check_folder(client, item_id)
    raise errors.NotShown


async def check_folder(client: Client, folder_id: str) -> None:
    """Return if the folder exists.  Raises `NotFound`, and `Forbidden` or `Gone` where items have IDs."""
    if Ability.ITEMS in client.offers.lacking:
        query = Query(query=EVERYTHING, ancestor_folder_ids=[folder_id], limit=1, fields=["id"])
        await client.search.page(query)
    else:
        await client.items.get("folder", folder_id)


def has_left_the_index(db: Database, node: Node) -> bool:
    """Whether an item that no search shows has left the index: it has been there unchanged for longer than
    the index lag, and is a file or web link, which only a search could show."""
    said = json.loads(tree.item_json(db, node.ino) or "{}")
    moments = [said[key] for key in ("created_at", "modified_at") if said.get(key)]
    newest = max(map(base.parse_timestamp, moments), default=None)
    return not node.is_folder and newest is not None and clock.datetime_now(UTC) - newest > INDEX_LAG


async def at_place(client: Client, folder_id: str, name: str) -> items.Item | None:
    """Return the item with this name in a folder, among those changed there last."""
    query = Query(
        query=EVERYTHING,
        ancestor_folder_ids=[folder_id],
        sort="modified_at",
        direction="DESC",
        limit=MAX_LIMIT,
    )
    page = await client.search.page(query)
    wanted = wire_names.name_key(name)
    for item in page.entries:
        if (
            item.parent is not None
            and item.parent.id == folder_id
            and wire_names.name_key(item.name or "") == wanted
        ):
            return item
    return None


def _about(db: Database | None, kind: NodeKind, item_id: str) -> Query:
    """Return the query for the item: by its creation time, or among the newest items."""
    node = tree.find_remote(db, kind, item_id) if db is not None else None
    said = json.loads(tree.item_json(db, node.ino) or "{}") if db is not None and node is not None else {}
    if made := said.get("created_at"):
        moment = base.parse_timestamp(made)
        span = TimeRange(start=moment - _SECOND, end=moment + _SECOND)
        return Query(query=EVERYTHING, type=kind.value, created_at_range=span, limit=MAX_LIMIT)
    return Query(query=EVERYTHING, type=kind.value, sort="modified_at", direction="DESC", limit=MAX_LIMIT)


async def _among(client: Client, query: Query, item_id: str) -> items.Item | None:
    """Return the item with this ID from the results; of the newest items only the first page is read."""
    offset = 0
    while True:
        asked = query.model_copy(update={"offset": offset})
        asked.model_fields_set.add("offset")
        page = await client.search.page(asked)
        for item in page.entries:
            if item.id == item_id:
                return item
        offset += page.limit or MAX_LIMIT
        if query.created_at_range is None or offset >= min(page.total_count, 10_000):
            return None
