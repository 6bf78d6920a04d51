"""File versions in responses, and the bodies that restore and promote one."""

from typing import Any

from cmsfs.models.base import Model, Size, Timestamp, UpdateBody, UserMini


class FileVersion(Model):
    type: str = "file_version"
    id: str
    sha1: str | None = None
    name: str | None = None
    size: Size | None = None
    created_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    modified_by: UserMini | None = None
    uploader_display_name: str | None = None
    trashed_at: Timestamp | None = None
    trashed_by: UserMini | None = None
    restored_at: Timestamp | None = None  # when it was last taken out of the trash
    restored_by: UserMini | None = None
    purged_at: Timestamp | None = None


class RestoreVersion(UpdateBody):
    """A restore from the trash: `trashed_at` is null, or omitted, as by clients that omit nulls."""

    trashed_at: Any = None


class Promote(Model):
    """The version whose contents become the current ones again."""

    id: str
    type: str = "file_version"
