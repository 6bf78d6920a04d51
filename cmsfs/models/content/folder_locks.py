"""Locks on folders."""

from typing import Any, Literal

import pydantic

from cmsfs.models.base import Model, Timestamp, UserMini


class LockedFolder(Model):
    type: Literal["folder"] = "folder"
    id: str


class LockedOperations(Model):
    """The operations that a lock prevents; both are required."""

    move: Literal[True]
    delete: Literal[True]


class NewFolderLock(Model):
    folder: LockedFolder
    locked_operations: LockedOperations | None = None


class FolderLock(Model):
    type: str = "folder_lock"
    id: str
    folder: dict[str, Any]
    created_by: UserMini | None = None
    created_at: Timestamp
    locked_operations: dict[str, bool]
    lock_type: str


class FolderLocks(Model):
    """The locks on a folder: one or none."""

    entries: list[FolderLock] = pydantic.Field(default_factory=list)
    limit: str
    next_marker: str | None = None
