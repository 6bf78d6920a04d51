"""Files in `recovered/`: local contents that no longer have a place on the drive.

They are reported until the user moves them away or dismisses them.  Contents that the user discarded
(`rejected.discard`) count as seen.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from cmsfs.ipc import attention

# File with the names of seen files, one per line.
_SEEN = ".seen"

# Copies of a damaged database are for debugging and are not reported.
_DATABASE = "replica.db.damaged-"


def waiting(folder: Path) -> list[attention.RecoveredFile]:
    """Return the files that the user has not seen, newest first."""
    seen = _seen(folder)
    found = []
    for entry in _entries(folder):
        if entry.name in seen or entry.name.startswith((".", _DATABASE)) or not entry.is_file():
            continue
        status = entry.stat()
        modified = datetime.fromtimestamp(status.st_mtime, UTC)
        found.append(attention.RecoveredFile(path=entry.path, bytes=status.st_size, modified=modified))
    return sorted(found, key=lambda one: one.modified, reverse=True)


def dismiss(folder: Path) -> int:
    """Stop reporting the current files; return how many."""
    found = [Path(one.path).name for one in waiting(folder)]
    mark_seen(folder, *found)
    return len(found)


def mark_seen(folder: Path, *names: str) -> None:
    """Mark these files as seen."""
    there = {entry.name for entry in _entries(folder)}
    # Names of deleted files are dropped: they may be reused for another file.
    seen = sorted((_seen(folder) & there) | set(names))
    new = folder / f"{_SEEN}.new"
    new.write_bytes(b"".join(os.fsencode(name) + b"\n" for name in seen))
    new.rename(folder / _SEEN)


def _seen(folder: Path) -> set[str]:
    try:
        return {os.fsdecode(line) for line in (folder / _SEEN).read_bytes().splitlines()}
    except FileNotFoundError:
        return set()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []
