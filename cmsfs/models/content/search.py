"""Search requests: parameters with their validation, and the result envelope.

Client and service share one model: the client builds a `Query` and sends `params()`; the service parses the
query string, in which lists are comma-separated and an omitted end of a range is empty.
"""

import json
from typing import Annotated, Any, Literal

import pydantic

from cmsfs.models.base import Model, RequestTimestamp, Size, format_timestamp
from cmsfs.models.content.items import File, Folder, Item, WebLink

DEFAULT_LIMIT = 30
MAX_LIMIT = 200
MAX_OFFSET = 10_000


class TimeRange(Model):
    """A range of times from `start` to `end`, inclusive; None is an open end."""

    start: RequestTimestamp | None = None
    end: RequestTimestamp | None = None

    def param(self) -> str:
        ends = (self.start, self.end)
        return ",".join("" if end is None else format_timestamp(end) for end in ends)


class SizeRange(Model):
    """A range of sizes from `lower` to `upper` bytes, inclusive; None is an open end."""

    lower: Annotated[Size, pydantic.Field(ge=0)] | None = None
    upper: Annotated[Size, pydantic.Field(ge=0)] | None = None

    def param(self) -> str:
        return ",".join("" if end is None else str(end) for end in (self.lower, self.upper))


def _ends(value: Any, first: str, second: str) -> Any:
    if not isinstance(value, str):
        return value
    ends = [end.strip() or None for end in value.split(",")]
    if len(ends) > 2:
        raise ValueError("must be two comma-separated values")
    return dict(zip((first, second), ends, strict=False))


def _numbers(value: Any) -> Any:
    if isinstance(value, str):
        given = [end.strip() for end in value.split(",")]
        if any(end and not (end.isascii() and end.removeprefix("-").isdigit()) for end in given):
            raise ValueError("must be whole numbers")
    return _ends(value, "lower", "upper")


def _list(value: Any) -> Any:
    if isinstance(value, str):
        return [word for part in value.split(",") if (word := part.strip())]
    return value


def _filters(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


# On the wire a range is text, and the API description shows it so.
_RANGE = pydantic.WithJsonSchema({"type": "string", "description": "Two ends with a comma between."})
Times = Annotated[TimeRange, pydantic.BeforeValidator(lambda value: _ends(value, "start", "end")), _RANGE]
Sizes = Annotated[SizeRange, pydantic.BeforeValidator(_numbers), _RANGE]
Words = Annotated[list[str], pydantic.BeforeValidator(_list)]
ContentType = Literal["name", "description", "file_content", "comments", "tags"]


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class MetadataFilter(Model):
    """Selects items that have an instance of one template whose fields match."""

    scope: str
    template_key: str = pydantic.Field(alias="templateKey")
    filters: dict[str, Any] = pydantic.Field(default_factory=dict)


class Query(Model):
    """The parameters of GET /search."""

    # Descriptions of parameters also appear in the API description.  They are not docstrings, because for
    # those pydantic reads and parses this file at every start.

    query: str | None = pydantic.Field(
        None, description='Words, "phrases", AND, OR, NOT; needed unless `mdfilters` is given.'
    )
    scope: Literal["user_content", "enterprise_content"] = pydantic.Field(
        "user_content", description="All content of the enterprise is for whom it is enabled."
    )
    file_extensions: Words | None = pydantic.Field(None, description="Without dots.")
    created_at_range: Times | None = pydantic.Field(
        None, description="Two RFC 3339 date-times; either may be left out."
    )
    updated_at_range: Times | None = pydantic.Field(
        None, description="Two RFC 3339 date-times; either may be left out."
    )
    size_range: Sizes | None = pydantic.Field(
        None, description="Two numbers of bytes, both included; either may be left out."
    )
    owner_user_ids: Words | None = None
    recent_updater_user_ids: Words | None = pydantic.Field(
        None, description="Whoever made one of the last 10 versions."
    )
    ancestor_folder_ids: Words | None = pydantic.Field(
        None, description="Below these folders; 404 if one is not there."
    )
    content_types: Annotated[list[ContentType], pydantic.BeforeValidator(_list)] | None = pydantic.Field(
        None, description="Which parts of an item the query is matched against."
    )
    type: Literal["file", "folder", "web_link"] | None = None
    trash_content: Literal["non_trashed_only", "trashed_only", "all_items"] = "non_trashed_only"
    mdfilters: (
        Annotated[
            list[MetadataFilter],
            pydantic.Field(min_length=1, max_length=1),
            pydantic.BeforeValidator(_filters),
        ]
        | None
    ) = None
    sort: Literal["relevance", "modified_at"] = "relevance"
    direction: Annotated[Literal["DESC", "ASC"], pydantic.BeforeValidator(_upper)] = pydantic.Field(
        "DESC", description="Of `modified_at`; relevance always falls."
    )
    limit: int = pydantic.Field(DEFAULT_LIMIT, ge=1)  # above the maximum: lowered by the service
    offset: int = pydantic.Field(0, ge=0, le=MAX_OFFSET)
    fields: Words | None = None
    deleted_user_ids: Words | None = pydantic.Field(
        None, description="Whoever put the item in the trash; needs `trash_content` = `trashed_only`."
    )
    deleted_at_range: Times | None = pydantic.Field(
        None, description="When it was put in the trash; needs `trash_content` = `trashed_only`."
    )
    include_recent_shared_links: bool = pydantic.Field(
        False, description="Answer in the form that says how an item was reached."
    )

    def params(self) -> dict[str, str]:
        """Return the parameters of the query string: those that were set, with lists comma-separated."""
        found: dict[str, str] = {}
        for name in self.model_fields_set:
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, TimeRange | SizeRange):
                found[name] = value.param()
            elif name == "mdfilters":
                found[name] = json.dumps([one.body() for one in value])
            elif isinstance(value, list):
                found[name] = ",".join(value)
            elif isinstance(value, bool):
                found[name] = "true" if value else "false"
            else:
                found[name] = str(value)
        return found


class SearchResults(Model):
    """One page of results.  Advance by `limit` until `offset + limit >= total_count` or a page is empty."""

    type: str = "search_results_items"
    total_count: int = 0
    limit: int = 0
    offset: int = 0
    entries: list[Item] = pydantic.Field(default_factory=list)


class SharedLinkResult(Model):
    """An entry in the format that `include_recent_shared_links` selects."""

    type: str = "search_result"
    accessible_via_shared_link: str | None = None
    item: File | Folder | WebLink = pydantic.Field(discriminator="type")


class SharedLinkResults(Model):
    type: str = "search_results_with_shared_links"
    total_count: int = 0
    limit: int = 0
    offset: int = 0
    entries: list[SharedLinkResult] = pydantic.Field(default_factory=list)
