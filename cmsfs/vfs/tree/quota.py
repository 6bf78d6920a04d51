"""How much may still be written before the service's quota or the local disk is full.

A program that copies files learns from the write that fails, not from an upload that is refused an hour
later.  What counts is what the account may use, what it has used, and what is on its way there; all of it a
little old, so it is asked for anew when it decides against a write.

On this machine's disk programs are refused before the last of it is used: what frees room must be recorded.

Rule: while it is not known, everything may be written; what is here already is never refused.
"""

import errno
import logging
import time

from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal import queue
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.ports import AccountPort

log = logging.getLogger(__name__)

# Adding up what is on its way looks at every pending upload.
COUNT_SECONDS = 5.0

# A program that is refused tries again and again; the log need not tell each time.
TELL_SECONDS = 60.0


class Quota:
    """Counts writes against the available space."""

    def __init__(self, db: Database, account: AccountPort, reserve: DiskReserve | None = None) -> None:
        self._reserve = reserve
        self._db = db
        self._account = account
        self._left: int | None = None
        self._counted_at = -COUNT_SECONDS
        self._told_at = -TELL_SECONDS

    def check_disk(self, nbytes: int = 0) -> None:
        """So many bytes, or something new, are to be kept on this machine.

        Raises `OSError` (ENOSPC) if the disk has no room for them.
        """
        if self._reserve is None:
            return
        try:
            self._reserve.check(nbytes)
        except OSError:
            self._tell(
                "the disk of %s is full, so writes are refused: free up space there", self._reserve.folder
            )
            raise

    def take(self, size: int, end: int) -> None:
        """A file of `size` bytes is to be written up to `end`.

        Raises `OSError`: EFBIG for a file that the service does not take, EDQUOT when the account is full.
        """
        if end <= size:
            return
        largest = self._account.largest_file
        if largest is not None and end > largest:
            self._tell("the service's maximum file size is %d bytes; larger writes are refused", largest)
            raise errno_map.oserror(errno.EFBIG)
        if time.monotonic() - self._counted_at >= COUNT_SECONDS:
            self._count()
        left = self._left
        if left is None:
            return
        if end - size > left:
            self._counted_at = -COUNT_SECONDS
            self._account.doubt_space()
            self._tell(
                "the account's quota is exhausted (%d bytes left); free up space at the service", max(0, left)
            )
            raise errno_map.oserror(errno.EDQUOT)
        self._left = left - (end - size)

    def _count(self) -> None:
        self._counted_at = time.monotonic()
        self._left = None
        if (space := self._account.space()) is not None and space[0] > 0:
            total, used = space
            self._left = total - used - queue.unsent_bytes(self._db)

    def _tell(self, message: str, argument: object) -> None:
        if time.monotonic() - self._told_at > TELL_SECONDS:
            self._told_at = time.monotonic()
            log.warning(message, argument)
