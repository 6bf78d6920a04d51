"""Fsyncs files and folders, with spare descriptors so that this never fails for lack of one.

A process has a soft limit of open files, often 1,024, which it may raise up to a hard limit.  Pools that grow
with programs' activity (drafts, cached contents) take a limited share of it, and a few descriptors are kept
in reserve, so that acknowledged writes become durable however many files are open.

Rule: the journal opens its files with `open_file`.

Rule: the name of a new, renamed or removed file is stored in its folder, which must be synced separately.
"""

import errno
import logging
import os
import resource
from pathlib import Path

log = logging.getLogger(__name__)

# More would slow down code that closes all descriptors in a child process.
ENOUGH = 65536

# For the journal: a folder, the database's log, and the drafts that are fsynced in parallel.
SPARE = 16

# A pool of files takes this fraction (1/4) of the limit, up to a maximum.
SHARE = 4
LARGEST_SHARE = 256

_spare: list[int] = []


def sync(path: Path) -> None:
    """Fsync a file, or the names in a folder."""
    fd = open_file(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_if_there(*paths: Path) -> None:
    """Fsync each of these paths that still exists."""
    for path in paths:
        try:
            sync(path)
        except FileNotFoundError:
            pass


# ---- descriptors -------------------------------------------------------------------------------


def raise_open_file_limit() -> int:
    """Raise the limit of open files as far as allowed; return the resulting limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            log.info("the open file limit is %d: %s", soft, error)
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def pool_share() -> int:
    """Return the number of files that a pool may keep open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LARGEST_SHARE if soft == resource.RLIM_INFINITY else max(8, min(LARGEST_SHARE, soft // SHARE))


def keep_spare(count: int = SPARE) -> None:
    """Keep `count` spare descriptors for `open_file`, or as many as available; call it again to refill."""
    while len(_spare) < count:
        try:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return


def drop_spare() -> None:
    """Close all spare descriptors."""
    while _spare:
        os.close(_spare.pop())


def open_file(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file; at the descriptor limit, release a spare descriptor for it."""
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
