"""Looks at single items by search, where the service shows none by its ID.

When an item was made never changes, and few are made in the same second: that finds it wherever it is and
whatever it is called.  What neither the living nor the trash show may be gone, or not be in the index yet.

Whoever calls this notes for the drive's health how it ended; `NotShown` says nothing of that.

Rule: only the trash, and of a folder that nothing can be searched below it, say that an item is gone.
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

# How far searches lag behind: ten minutes in most cases, as services say.
INDEX_LAG = timedelta(minutes=30)

_SECOND = timedelta(seconds=1)


async def look_at(db: Database | None, client: Client, kind: NodeKind, item_id: str) -> items.Item:
    """The item as the service has it now: by its ID, or where that is not offered as `find` has it."""
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
    """The item as the index has it, with these fields beside those of listings.

    Raises `NotFound` for one that is gone, `NotShown` where that is not known.
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
    """Return if the folder is there.  Raises `NotFound`, and `Forbidden` or `Gone` where items have IDs."""
    if Ability.ITEMS in client.offers.lacking:
        query = Query(query=EVERYTHING, ancestor_folder_ids=[folder_id], limit=1, fields=["id"])
        await client.search.page(query)
    else:
        await client.items.get("folder", folder_id)


def has_left_the_index(db: Database, node: Node) -> bool:
    """Whether an item that no search shows was in the index for long: it has been there longer, unchanged,
    than searches lag behind, and is a file or web link, which nothing but a search could show."""
    said = json.loads(tree.item_json(db, node.ino) or "{}")
    moments = [said[key] for key in ("created_at", "modified_at") if said.get(key)]
    newest = max(map(base.parse_timestamp, moments), default=None)
    return not node.is_folder and newest is not None and clock.datetime_now(UTC) - newest > INDEX_LAG


async def at_place(client: Client, folder_id: str, name: str) -> items.Item | None:
    """Who has this name in a folder, among what was changed there last."""
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
    """What finds the item: when it was made, or that it is one of the newest."""
    node = tree.find_remote(db, kind, item_id) if db is not None else None
    said = json.loads(tree.item_json(db, node.ino) or "{}") if db is not None and node is not None else {}
    if made := said.get("created_at"):
        moment = base.parse_timestamp(made)
        span = TimeRange(start=moment - _SECOND, end=moment + _SECOND)
        return Query(query=EVERYTHING, type=kind.value, created_at_range=span, limit=MAX_LIMIT)
    return Query(query=EVERYTHING, type=kind.value, sort="modified_at", direction="DESC", limit=MAX_LIMIT)


async def _among(client: Client, query: Query, item_id: str) -> items.Item | None:
    """The item with this ID among what a search shows; of the newest the first page will do."""
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
