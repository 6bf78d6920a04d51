"""The base of all wire models: configuration, timestamps, numbers, mini references.

Imported by all other models.  A model says what may come and in which form; what it means is decided
by the client and the service.

Rule: read liberally (unknown fields are ignored, numbers may be text), write exactly (RFC 3339 with an
offset, only the fields that were set).  A change alone is read strictly (see `UpdateBody`).
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pydantic

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_timestamp(text: str) -> datetime:
    """An RFC 3339 date-time as an aware datetime in UTC, to the microsecond.

    Raises `ValueError` for anything else, a missing offset included.
    """
    found = _RFC3339.fullmatch(text.strip())
    if found is None:
        raise ValueError("must be an RFC 3339 date-time with a UTC offset")
    date, time, fraction, offset = found.groups()
    micros = (fraction or "").ljust(6, "0")[:6]
    zone = "+00:00" if offset in "Zz" else offset
    try:
        return datetime.fromisoformat(f"{date}T{time}.{micros}{zone}").astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


def format_timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC; a fraction only where there is one, so that nothing is lost on the way back."""
    return moment.astimezone(UTC).isoformat()


def _timestamp(value: Any) -> Any:
    if isinstance(value, str):
        return parse_timestamp(value)
    if isinstance(value, datetime):
        return value
    raise ValueError("must be an RFC 3339 date-time with a UTC offset")


def _whole(value: Any) -> Any:
    # Services write large numbers as 1.0e+18, some of them inside quotes.
    if isinstance(value, str):
        value = int(value) if value.strip().lstrip("-").isdecimal() else float(value)
    if isinstance(value, float):
        try:
            return int(value)
        except OverflowError:
            raise ValueError("must be a finite number") from None
    return value


# In answers: whatever form of date-time the service writes (a page of results holds a thousand of them, so
# the parsing stays in pydantic's core).  In requests: RFC 3339 and nothing else.
Timestamp = Annotated[pydantic.AwareDatetime, pydantic.PlainSerializer(format_timestamp)]
RequestTimestamp = Annotated[
    pydantic.AwareDatetime, pydantic.BeforeValidator(_timestamp), pydantic.PlainSerializer(format_timestamp)
]


def _exact(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("must be a whole number")
    return value


# A number in a request: what is no whole one is refused, not rounded.
Exact = pydantic.BeforeValidator(_exact)


def _named(value: Any) -> Any:
    if not isinstance(value, str) or value.isspace() or not value.isprintable():
        raise ValueError("must be text that can be read")
    return value


# A name in a request: no number, no blank, no control characters.
Readable = pydantic.BeforeValidator(_named)


def _as_written(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError("must be text")
    return value


# A name in a request that some clients send as a whole number.  Of any other number the text is not kept.
ItemName = Annotated[str, pydantic.BeforeValidator(_as_written)]

# A number of bytes.
Size = Annotated[int, pydantic.BeforeValidator(_whole)]


# An id, or another text, that the service writes as a number; descriptions of the API say so.
#
# The specification shows the ids of legal hold policies and of retention assignments as integers, the public
# API gives strings, and of its clients the strict ones take nothing else.  Decided: integers, but strings for
# a request with `box-version` or `x-box-ua`, which only clients of the public API send
# (`marker_pagination.number_id`). A client of the specification knows neither header, and one that reads
# liberally, as ours, does not care.
NumberId = Annotated[str, pydantic.WithJsonSchema({"type": ["integer", "string"]})]
NumberOrText = Annotated[str, pydantic.WithJsonSchema({"type": ["integer", "string"]})]


# A validator is built when its first value comes: a process uses few of them, and building all was a large
# part of a start.
DEFERRED = pydantic.ConfigDict(defer_build=True)


class Model(pydantic.BaseModel):
    """The base of every shape: ids sent as numbers are read as text, unknown fields are ignored."""

    model_config = pydantic.ConfigDict(
        extra="ignore",
        populate_by_name=True,
        coerce_numbers_to_str=True,
        protected_namespaces=(),
        defer_build=True,
    )

    def body(self) -> dict[str, Any]:
        """The fields that were set, under their wire names, ready to be sent as JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class UpdateBody(Model):
    """The body of a change.  What is no field, or cannot be changed, is refused, never dropped."""

    model_config = pydantic.ConfigDict(extra="forbid")


class UserMini(Model):
    type: str = "user"
    id: str
    name: str | None = None
    login: str | None = None


class GroupMini(Model):
    type: Literal["group"] = "group"
    id: str
    name: str | None = None
    group_type: str | None = None


class FolderMini(Model):
    type: str = "folder"
    id: str
    etag: str | None = None
    sequence_id: str | None = None
    name: str | None = None


class FileVersionMini(Model):
    type: str = "file_version"
    id: str
    sha1: str | None = None


class EnterpriseMini(Model):
    type: str = "enterprise"
    id: str
    name: str | None = None


class Reference(Model):
    """Another object named by its id, as requests do (`parent: {id}`)."""

    id: str
