"""ZIP archives of several files and folders: the request, the response, and the download's progress."""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import Model, Timestamp

MAX_FILES = 10_000


class ZipTarget(Model):
    """A file or a folder, not the root."""

    type: Literal["file", "folder"]
    id: str


class NewZipDownload(Model):
    items: Annotated[list[ZipTarget], pydantic.Field(min_length=1, max_length=MAX_FILES)]
    download_file_name: Annotated[str, pydantic.Field(max_length=255)] | None = None


class ZipNameConflict(Model):
    """An item whose name in the archive differs from its name at the service."""

    id: str
    type: str
    original_name: str
    download_name: str


class ZipDownload(Model):
    download_url: str
    status_url: str
    expires_at: Timestamp
    name_conflicts: list[list[ZipNameConflict]]


class ZipDownloadStatus(Model):
    total_file_count: int
    downloaded_file_count: int
    skipped_file_count: int
    skipped_folder_count: int
    state: Literal["in_progress", "failed", "succeeded"]
