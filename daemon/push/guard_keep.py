"""Keeps the bytes that are about to go when a mass change is taken back, as a tree in the recovered files.

Links, where the file system has them: many files take no further room, and are there at once.
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
class Kept:
    """A file by its path on the drive, and what gives its bytes a second name."""

    path: str
    keep: Callable[[Path], None]


def of_file(path: str, source: Path) -> Kept:
    """The bytes of a file of the cache."""
    return Kept(path, lambda target: _second_name(source, target))


def of_draft(path: str, draft: Draft) -> Kept:
    """What was written; what it was written over, and is not here, is zeros."""

    def keep(target: Path) -> None:
        draft.make_file()
        _second_name(draft.path, target)
        os.truncate(target, draft.size)
        # What a draft's row has as well was never brought to the disk, and the row goes.
        durability.sync(target)

    return Kept(path, keep)


def keep_all(these: Iterable[Kept], recovered: Path) -> Path | None:
    """Keep all of these, durably; in which folder, None if there is nothing.  For a thread.

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


def _second_name(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or a file with too many names.
        shutil.copyfile(source, target)
        durability.sync(target)
