"""Direct uploads: the attributes part before the bytes, the preflight check, and the response."""

import pydantic

from cmsfs.models.base import ItemName, Model, Reference, RequestTimestamp, Size
from cmsfs.models.content.items import File


class UploadAttributes(Model):
    """The first part of an upload of a new file.  Times not set are the time of the upload."""

    name: ItemName
    parent: Reference
    content_created_at: RequestTimestamp | None = None
    content_modified_at: RequestTimestamp | None = None


class VersionAttributes(Model):
    """The first part of an upload of a new version: a name renames the file as well."""

    name: ItemName | None = None
    content_modified_at: RequestTimestamp | None = None


class Preflight(Model):
    """May this be uploaded?  Everything is optional; what is given is judged."""

    name: ItemName | None = None
    parent: Reference | None = None
    size: Size | None = pydantic.Field(None, ge=0)


class PreflightAnswer(Model):
    upload_url: str
    upload_token: str | None = None


class UploadResult(Model):
    """A list with the one new file."""

    total_count: int = 0
    entries: list[File] = pydantic.Field(default_factory=list)
