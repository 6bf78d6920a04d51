"""Saves contents that an undone mass change would lose, as a tree in the recovered files.

Hard links where the file system supports them: they need no space and no copying.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cmsfs import durability
from cmsfs.journal.draft import Draft
from cmsfs.runtime import clock


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file by its path on the drive, and the function that links or copies its contents."""

    path: str
    keep: Callable[[Path], None]


def of_file(path: str, source: Path) -> SavedFile:
    """Return how to save a cached file."""
    return SavedFile(path, lambda target: _link_or_copy(source, target))


def of_draft(path: str, draft: Draft) -> SavedFile:
    """Return how to save a draft; base ranges that are not cached become zeros."""

    def keep(target: Path) -> None:
        draft.make_file()
        _link_or_copy(draft.path, target)
        os.truncate(target, draft.size)
        # Small contents are also in the draft's row, which is deleted; the file may not be on disk yet.
        durability.sync(target)

    return SavedFile(path, keep)


def save_all(these: Iterable[SavedFile], recovered: Path) -> Path | None:
    """Save all of these durably; return the folder, or None if there is nothing.  Runs in a thread.

    Raises `OSError`.
    """
    top = recovered / f"guard {datetime.fromtimestamp(clock.time()):%Y-%m-%d %H.%M.%S}"
    folders = set()
    for one in these:
        target = top / one.path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folders.add(target.parent)
        one.keep(target)
    if not folders:
        return None
    for folder in {*folders, top, recovered}:
        durability.sync(folder)
    return top


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or too many links.
        shutil.copyfile(source, target)
        durability.sync(target)
