"""Saves contents that an undone mass change would lose, as a tree in the recovered files.

Hard links where the file system supports them: they need no space and no copying.

Rule: every file is on the disk before `save_all` returns, since what it was linked from goes then.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import trio

from cmsfs import durability
from cmsfs.journal.draft import Draft
from cmsfs.journal.group_commit import PARALLEL_FSYNCS
from cmsfs.runtime import clock, threads


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

    return SavedFile(path, keep)


async def save_all(these: Sequence[SavedFile], recovered: Path) -> Path | None:
    """Save all of these durably; return the folder, or None if there is nothing.  Raises `OSError`."""
    if not these:
        return None
    top = recovered / f"guard {datetime.fromtimestamp(clock.time()):%Y-%m-%d %H.%M.%S}"
    targets = await threads.run_sync(_link_all, these, top)
    # In parallel, so that the file system's journal commits them together.
    async with trio.open_nursery() as nursery:
        for share in range(min(PARALLEL_FSYNCS, len(targets))):
            nursery.start_soon(threads.run_sync, _sync_all, targets[share::PARALLEL_FSYNCS])
    inside = {target.parent for target in targets}
    above = {folder for one in inside for folder in one.parents if folder.is_relative_to(top)}
    await threads.run_sync(_sync_all, sorted({*inside, *above, top, recovered}))
    return top


def _link_all(these: Sequence[SavedFile], top: Path) -> list[Path]:
    targets = []
    for one in these:
        target = top / one.path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        one.keep(target)
        targets.append(target)
    return targets


def _sync_all(paths: Sequence[Path]) -> None:
    for path in paths:
        durability.sync(path)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or too many links.
        shutil.copyfile(source, target)
