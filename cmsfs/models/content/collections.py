"""The collections of a user, of which there is one, the favorites; and the user's recent items."""

from typing import Literal

import pydantic

from cmsfs.models.base import Model, Timestamp
from cmsfs.models.content.items import Collection, Item


class Collections(Model):
    total_count: int
    limit: int
    offset: int
    entries: list[Collection] = pydantic.Field(default_factory=list)


class CollectionItems(Model):
    """A page of the items in a collection."""

    total_count: int
    limit: int
    offset: int
    entries: list[Item] = pydantic.Field(default_factory=list)


class ItemCollections(Model):
    """An item of any kind, with the collections that it is in."""

    id: str
    collections: list[Collection] | None = None


class RecentItem(Model):
    """An item, and how the user last used it."""

    type: str = "recent_item"
    interaction_type: Literal["item_upload", "item_modify", "item_comment"]
    interacted_at: Timestamp
    item: Item
    interaction_shared_link: str | None = None


class RecentItems(Model):
    limit: int
    next_marker: str | None = None
    entries: list[RecentItem] = pydantic.Field(default_factory=list)
