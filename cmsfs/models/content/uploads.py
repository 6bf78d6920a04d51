"""Direct uploads: the attributes part before the bytes, the preflight check, and the response."""

import pydantic

from cmsfs.models.base import ItemName, Model, Reference, RequestTimestamp, Size
from cmsfs.models.content.items import File


class UploadAttributes(Model):
    """The first part of an upload of a new file.  Unset times are the time of the upload."""

    name: ItemName
    parent: Reference
    content_created_at: RequestTimestamp | None = None
    content_modified_at: RequestTimestamp | None = None


class VersionAttributes(Model):
    """The first part of an upload of a new version; a name also renames the file."""

    name: ItemName | None = None
    content_modified_at: RequestTimestamp | None = None


class Preflight(Model):
    """A check before an upload.  All fields are optional; those given are validated."""

    name: ItemName | None = None
    parent: Reference | None = None
    size: Size | None = pydantic.Field(None, ge=0)


class PreflightAnswer(Model):
    upload_url: str
    upload_token: str | None = None


class UploadResult(Model):
    """The response to an upload: a list with the one file."""

    total_count: int = 0
    entries: list[File] = pydantic.Field(default_factory=list)
