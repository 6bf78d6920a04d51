"""Chunked uploads: the session, its parts, and the commit.

Digests of parts and of the whole file are sent in a header, in base64 (`digest`); responses have them in
hexadecimal.

Rule: a part begins at a multiple of the session's part size, has that size unless it is the last, and is
never replaced.
"""

import base64
from typing import Any

import pydantic

from cmsfs.models.base import ItemName, Model, RequestTimestamp, Size, Timestamp
from cmsfs.models.content.items import Description

# Smaller files are uploaded in one request.
MIN_FILE_SIZE = 20_000_000


class NewSession(Model):
    """The file to be uploaded.  The service validates each field itself, with its own error codes."""

    folder_id: Any = None  # for a new file
    file_size: Any = None
    file_name: Any = None


class SessionEndpoints(Model):
    """The absolute URLs for the session's requests."""

    upload_part: str | None = None
    commit: str | None = None
    abort: str | None = None
    list_parts: str | None = None
    status: str | None = None
    plan: str | None = None
    log_event: str | None = None


class UploadSession(Model):
    type: str = "upload_session"
    id: str
    session_expires_at: Timestamp | None = None
    part_size: Size
    total_parts: int
    num_parts_processed: int = 0
    session_endpoints: SessionEndpoints = pydantic.Field(default_factory=SessionEndpoints)


class Part(Model):
    part_id: str
    offset: Size
    size: Size
    sha1: str | None = None  # hexadecimal; unknown for a part found by a plan


class UploadedPart(Model):
    part: Part


class CommitAttributes(Model):
    name: ItemName | None = None
    description: Description | None = None
    content_created_at: RequestTimestamp | None = None
    content_modified_at: RequestTimestamp | None = None


class Commit(Model):
    parts: list[Part]
    attributes: CommitAttributes = pydantic.Field(default_factory=CommitAttributes)


class PlannedPart(Model):
    offset: Size = pydantic.Field(ge=0)
    size: Size = pydantic.Field(gt=0)
    sha512: str  # hexadecimal


class PartsPlan(Model):
    """A request for which of these parts need not be sent."""

    parts: list[PlannedPart] = pydantic.Field(max_length=1000)


class FoundPart(PlannedPart):
    """A planned part; if it need not be sent, it has an id already."""

    part_id: str | None = None


class PlanAnswer(Model):
    upload_session_id: str
    hits: list[FoundPart] = pydantic.Field(default_factory=list)
    misses: list[FoundPart] = pydantic.Field(default_factory=list)


def digest(sha1: bytes | str) -> str:
    """Return the `digest` header for a SHA-1, given as bytes or in hexadecimal."""
    raw = bytes.fromhex(sha1) if isinstance(sha1, str) else sha1
    return f"sha={base64.b64encode(raw).decode()}"
