"""The request and the response of a metadata query."""

from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Exact, Model
from cmsfs.models.content.items import Item

MAX_LIMIT = 100
# Far longer than any query that a person or a program would write.
MAX_QUERY = 10_000

Direction = Annotated[
    Literal["ASC", "DESC"],
    pydantic.BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
]


class QueryOrder(Model):
    field_key: str
    direction: Direction = "ASC"


class MetadataQuery(Model):
    """Selects instances of a template by a condition on their fields; without a condition, all of them."""

    from_: str = pydantic.Field(alias="from")  # scope.templateKey
    ancestor_folder_id: str  # 0: all that the caller sees
    query: Annotated[str, pydantic.Field(max_length=MAX_QUERY)] | None = None
    query_params: dict[str, Any] = pydantic.Field(default_factory=dict)
    order_by: Annotated[list[QueryOrder], pydantic.Field(max_length=10)] = pydantic.Field(
        default_factory=list
    )
    limit: Annotated[int, Exact, pydantic.Field(ge=0)] = MAX_LIMIT
    marker: str | None = None
    fields: Annotated[list[str], pydantic.Field(max_length=100)] | None = None


class MetadataQueryResults(Model):
    """A page of the files and folders that have a matching instance."""

    entries: list[Item] = pydantic.Field(default_factory=list)
    limit: int | None = None
    next_marker: str | None = None
