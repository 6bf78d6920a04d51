"""The base of all wire models: configuration, timestamps, numbers, mini references.

Imported by all other models.  A model defines which fields a body has and their formats; the client and
the service decide what they mean.

Rule: read liberally (unknown fields are ignored, numbers may be text), write exactly (RFC 3339 with an
offset, only the fields that were set).  Only the bodies of changes are read strictly (see `UpdateBody`).
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pydantic

_RFC3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def parse_timestamp(text: str) -> datetime:
    """Parse an RFC 3339 date-time; return an aware datetime in UTC, to the microsecond.

    Raises `ValueError` for anything else, including a missing offset.
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
    """Return the time as RFC 3339 in UTC, with a fraction only if it has one; parsing it loses nothing."""
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


# Responses may have any date-time format that pydantic's core parses (a page of results holds a thousand
# of them, so a validator in Python would be slow).  Requests must have RFC 3339.
Timestamp = Annotated[pydantic.AwareDatetime, pydantic.PlainSerializer(format_timestamp)]
RequestTimestamp = Annotated[
    pydantic.AwareDatetime, pydantic.BeforeValidator(_timestamp), pydantic.PlainSerializer(format_timestamp)
]


def _exact(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("must be a whole number")
    return value


# A number in a request: anything but a whole number is rejected, not rounded.
Exact = pydantic.BeforeValidator(_exact)


def _named(value: Any) -> Any:
    if not isinstance(value, str) or value.isspace() or not value.isprintable():
        raise ValueError("must be text that can be read")
    return value


# A name in a request: text that is not only whitespace and has no control characters.
Readable = pydantic.BeforeValidator(_named)


def _as_written(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError("must be text")
    return value


# A name in a request, which some clients send as a whole number.  Other numbers are rejected, because their
# original text is lost.
ItemName = Annotated[str, pydantic.BeforeValidator(_as_written)]

# A number of bytes.
Size = Annotated[int, pydantic.BeforeValidator(_whole)]


# An id, or other text, that the service writes as a number; the API description shows both types.
#
# The specification shows the ids of legal hold policies and of retention assignments as integers; the public
# API returns strings, and its strict clients accept nothing else.  Decision: integers, but strings in
# responses to requests with `box-version` or `x-box-ua`, which only clients of the public API send
# (`marker_pagination.number_id`).  A client of the specification sends neither header, and a client that
# reads liberally, as ours does, accepts both.
NumberId = Annotated[str, pydantic.WithJsonSchema({"type": ["integer", "string"]})]
NumberOrText = Annotated[str, pydantic.WithJsonSchema({"type": ["integer", "string"]})]


# Validators are built on first use: a process uses few of them, and building all of them took a large part of
# the start-up time.
DEFERRED = pydantic.ConfigDict(defer_build=True)


class Model(pydantic.BaseModel):
    """The base of all models: ids sent as numbers are read as text, unknown fields are ignored."""

    model_config = pydantic.ConfigDict(
        extra="ignore",
        populate_by_name=True,
        coerce_numbers_to_str=True,
        protected_namespaces=(),
        defer_build=True,
    )

    def body(self) -> dict[str, Any]:
        """Return the fields that were set, under their wire names, ready to be sent as JSON."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class UpdateBody(Model):
    """The body of a change.  Unknown and read-only fields are rejected, never ignored."""

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
    """A reference to another object by its id, as in requests (`parent: {id}`)."""

    id: str
