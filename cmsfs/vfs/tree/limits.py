"""What a program is refused at the call, with one line of the log that says why: what the service has no
operation for, and what the account or the disk has no room for.

A service may offer less than a drive needs.  What it could never be told is not done here either, so nothing
waits for ever, and nothing shows that is not so.  What only this machine has, because it is local or was not
sent yet, can be changed as ever.

A program that copies files learns from the write that fails, not from an upload that is refused an hour
later.  What counts is what the account may use, what it has used, and what is on its way there; all of it a
little old, so it is asked for anew when it decides against a write.  On this machine's disk programs are
refused before the last of it is used: what frees room must be recorded.

Rule: raises `OSError` only, before anything is changed: EROFS for bytes and times of files, EPERM for their
places, ENOTSUP for attributes; EFBIG, EDQUOT and ENOSPC for want of room.

Rule: while it is not known, everything may be written; what is here already is never refused.
"""

import errno
import logging

from cmsfs.config.abilities import Ability, ServiceOffers
from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal import queue
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.replica.rows import in_flight
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.ports import AccountPort

log = logging.getLogger(__name__)

# A program that is refused goes on to the next of ten thousand files, or tries again and again.
QUIET_SECONDS = 60.0

# Adding up what is on its way looks at every pending upload.
COUNT_SECONDS = 5.0


class ServiceLimits:
    """What the service of the drive has no operation for."""

    def __init__(self, db: Database, offers: ServiceOffers) -> None:
        self._db = db
        self._offers = offers
        self._said: dict[Ability, float] = {}

    def check_write(self, node: Node) -> None:
        """Its bytes, or what a web link says, are to be others."""
        if self._offers.lacking and not node.is_folder:
            ability = Ability.CHANGES if node.kind is NodeKind.LINK else Ability.VERSIONS
            self._check(node, ability, errno.EROFS)

    def check_time(self, node: Node) -> None:
        """It is to have another modification time."""
        self._check(node, Ability.CHANGES, errno.EROFS)

    def check_move(self, node: Node) -> None:
        """It is to have another name or place."""
        self._check(node, Ability.CHANGES, errno.EPERM)

    def check_removal(self, node: Node) -> None:
        self._check(node, Ability.DELETIONS, errno.EPERM)

    def check_replaced(self, node: Node) -> None:
        """Another one is to take its name, and its identity."""
        self._check(node, Ability.VERSIONS if node.kind is NodeKind.FILE else Ability.DELETIONS, errno.EPERM)

    def check_new_folder(self, name: str, *, local: bool) -> None:
        if not local and Ability.FOLDERS in self._offers.lacking:
            raise self._refusal(Ability.FOLDERS, errno.EPERM, name)

    def check_description(self, node: Node) -> None:
        """It is to have another description or other tags, now or when it is sent."""
        if not node.local and Ability.CHANGES in self._offers.lacking:
            raise self._refusal(Ability.CHANGES, errno.ENOTSUP, node.name)

    def check_metadata(self, node: Node) -> None:
        """A value of its metadata is to be set, now or when it is sent."""
        if not node.local and Ability.METADATA in self._offers.lacking:
            raise self._refusal(Ability.METADATA, errno.ENOTSUP, node.name)

    def _check(self, node: Node, ability: Ability, number: int) -> None:
        if ability in self._offers.lacking and self._is_at_service(node):
            raise self._refusal(ability, number, node.name)

    def _is_at_service(self, node: Node) -> bool:
        """Whether the service has the item, or may have it: it is being sent."""
        return node.remote_id is not None or bool(in_flight.new_items(self._db, node.ino))

    def _refusal(self, ability: Ability, number: int, name: str) -> OSError:
        now = clock.monotonic()
        if now - self._said.get(ability, float("-inf")) > QUIET_SECONDS:
            self._said[ability] = now
            log.warning("%s is left as it is: this service cannot %s", name, ability.cannot)
        return errno_map.oserror(number, f"{name}: this service cannot {ability.cannot}")


class Quota:
    """Counts writes against the available space."""

    def __init__(self, db: Database, account: AccountPort, reserve: DiskReserve | None = None) -> None:
        self._reserve = reserve
        self._db = db
        self._account = account
        self._left: int | None = None
        self._counted_at = -COUNT_SECONDS
        self._told_at = -QUIET_SECONDS

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
        if clock.monotonic() - self._counted_at >= COUNT_SECONDS:
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
        self._counted_at = clock.monotonic()
        self._left = None
        if (space := self._account.space()) is not None and space[0] > 0:
            total, used = space
            self._left = total - used - queue.unsent_bytes(self._db)

    def _tell(self, message: str, argument: object) -> None:
        if clock.monotonic() - self._told_at > QUIET_SECONDS:
            self._told_at = clock.monotonic()
            log.warning(message, argument)
