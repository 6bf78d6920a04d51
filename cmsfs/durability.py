"""Brings files and names to the disk.

Opening something to sync it takes a descriptor from the reserve where no other is left (`fd_limits`), so that
what is acknowledged is durable however many files are open.

Rule: names of a new, renamed or removed file are in its folder, which is synced by itself.
"""

import os
from pathlib import Path

from cmsfs import fd_limits


def sync(path: Path) -> None:
    """Bring the bytes of a file, or the names in a folder, to the disk."""
    fd = fd_limits.open_file(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_if_there(*paths: Path) -> None:
    """As `sync`, of each that is still there."""
    for path in paths:
        try:
            sync(path)
        except FileNotFoundError:
            pass
