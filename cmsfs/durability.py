"""Brings files and names to the disk, with descriptors in reserve so that this never fails for want of one.

The kernel gives a process a soft limit of open files, often 1,024, and a hard one that it may raise it to.
What grows with what programs do (drafts, cached contents) takes a share of it and no more; and a few
descriptors are kept in reserve, so that what is acknowledged is durable however many files are open.

Rule: the journal opens what it needs by `open_file`.

Rule: names of a new, renamed or removed file are in its folder, which is synced by itself.
"""

import errno
import logging
import os
import resource
from pathlib import Path

log = logging.getLogger(__name__)

# More would be work for whatever closes all descriptors of a child.
ENOUGH = 65536

# For the journal: a folder, the database's log, and as many drafts as are made durable side by side.
SPARE = 16

# A pool of files takes this part of the limit, and no more than so many.
SHARE = 4
LARGEST_SHARE = 256

_spare: list[int] = []


def sync(path: Path) -> None:
    """Bring the bytes of a file, or the names in a folder, to the disk."""
    fd = open_file(path, os.O_RDONLY)
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


# ---- descriptors -------------------------------------------------------------------------------


def raise_open_file_limit() -> int:
    """Take what the system allows; how many files may be open from now on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            log.info("the open file limit is %d: %s", soft, error)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def pool_share() -> int:
    """How many files a pool may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LARGEST_SHARE if soft == resource.RLIM_INFINITY else max(8, min(LARGEST_SHARE, soft // SHARE))


def keep_spare(count: int = SPARE) -> None:
    """Keep so many descriptors for `open_file`, or what there is; call it again when some may be free."""
    while len(_spare) < count:
        try:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return


def drop_spare() -> None:
    """Keep none any more."""
    while _spare:
        os.close(_spare.pop())


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor; where there is none left, one that was kept."""
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            try:
                os.close(_spare.pop())
            except IndexError:
                raise error from None
