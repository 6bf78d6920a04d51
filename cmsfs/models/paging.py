"""The two envelopes of collections: by offset and by marker."""

from typing import Generic, TypeVar

import pydantic

from cmsfs.models.base import Model

T = TypeVar("T")


class Order(Model):
    by: str
    direction: str = "ASC"


class OffsetPage(Model, Generic[T]):
    entries: list[T] = pydantic.Field(default_factory=list)
    limit: int = 0
    offset: int = 0
    total_count: int = 0
    order: list[Order] | Order | None = None  # services send either form


class MarkerPage(Model, Generic[T]):
    """The next page starts at `next_marker`; null, empty or absent means there is none."""

    entries: list[T] = pydantic.Field(default_factory=list)
    limit: int | None = None
    next_marker: str | None = None
    prev_marker: str | None = None
