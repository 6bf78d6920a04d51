"""Rejects system calls that cannot succeed, with a log line that tells why: changes that the service does not
support, and writes for which the account or the disk has no space.

A service may support less than a drive needs.  Changes that could never be sent are not made locally either,
so no operation waits for ever and the drive shows nothing that is not true.  Items that exist only locally,
or are not uploaded yet, can be changed as usual.

A program that copies files gets an error from the failing write, not from an upload rejected an hour later.
The check uses the account's quota, its used space and pending uploads; these values may be slightly stale, so
they are requested again when they cause a rejection.  On the local disk, writes are rejected before the last
space is used, because freeing space must be recorded, too.

Rule: raises `OSError` only, before anything is changed: EROFS for contents and times of files, EPERM for
their places, ENOTSUP for attributes; EFBIG, EDQUOT and ENOSPC for lack of space.

Rule: while the quota is unknown everything may be written; what exists already is never rejected.
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

# Interval of warnings: a rejected program continues with the next of ten thousand files, or keeps retrying.
WARN_INTERVAL_SECONDS = 60.0

# How long the sum of pending uploads is cached: computing it reads all of them.
COUNT_SECONDS = 5.0


class ServiceLimits:
    """Rejects changes that the service does not support."""

    def __init__(self, db: Database, offers: ServiceOffers) -> None:
        self._db = db
        self._offers = offers
        self._logged_at: dict[Ability, float] = {}

    def check_write(self, node: Node) -> None:
        """Check a change of a file's contents or of a web link's target."""
        if self._offers.lacking and not node.is_folder:
            ability = Ability.CHANGES if node.kind is NodeKind.LINK else Ability.VERSIONS
            self._check(node, ability, errno.EROFS)

    def check_time(self, node: Node) -> None:
        """Check a change of the modification time."""
        self._check(node, Ability.CHANGES, errno.EROFS)

    def check_move(self, node: Node) -> None:
        """Check a rename or move."""
        self._check(node, Ability.CHANGES, errno.EPERM)

    def check_removal(self, node: Node) -> None:
        self._check(node, Ability.DELETIONS, errno.EPERM)

    def check_replaced(self, node: Node) -> None:
        """Check that another node may take over its name and identity."""
        self._check(node, Ability.VERSIONS if node.kind is NodeKind.FILE else Ability.DELETIONS, errno.EPERM)

    def check_new_folder(self, name: str, *, local: bool) -> None:
        if not local and Ability.FOLDERS in self._offers.lacking:
            raise self._refusal(Ability.FOLDERS, errno.EPERM, name)

    def check_description(self, node: Node) -> None:
        """Check a change of description or tags, now or when the node is uploaded."""
        if not node.local and Ability.CHANGES in self._offers.lacking:
            raise self._refusal(Ability.CHANGES, errno.ENOTSUP, node.name)

    def check_metadata(self, node: Node) -> None:
        """Check a change of metadata, now or when the node is uploaded."""
        if not node.local and Ability.METADATA in self._offers.lacking:
            raise self._refusal(Ability.METADATA, errno.ENOTSUP, node.name)

    def _check(self, node: Node, ability: Ability, number: int) -> None:
        if ability in self._offers.lacking and self._is_at_service(node):
            raise self._refusal(ability, number, node.name)

    def _is_at_service(self, node: Node) -> bool:
        """Whether the service has the item, or may have it because it is being sent."""
        return node.remote_id is not None or bool(in_flight.new_items(self._db, node.ino))

    def _refusal(self, ability: Ability, number: int, name: str) -> OSError:
        now = clock.monotonic()
        if now - self._logged_at.get(ability, float("-inf")) > WARN_INTERVAL_SECONDS:
            self._logged_at[ability] = now
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
        self._warned_at = -WARN_INTERVAL_SECONDS

    def check_disk(self, nbytes: int = 0) -> None:
        """Raise `OSError` (ENOSPC) if the local disk has no space for `nbytes` or a new entry."""
        if self._reserve is None:
            return
        try:
            self._reserve.check(nbytes)
        except OSError:
            self._warn(
                "the disk of %s is full, so writes are refused: free up space there", self._reserve.folder
            )
            raise

    def take(self, size: int, end: int) -> None:
        """Account for writing a file of `size` bytes up to `end`.

        Raises `OSError`: EFBIG if the service does not accept so large a file, EDQUOT if the account is full.
        """
        if end <= size:
            return
        largest = self._account.largest_file
        if largest is not None and end > largest:
            self._warn("the service's maximum file size is %d bytes; larger writes are refused", largest)
            raise errno_map.oserror(errno.EFBIG)
        if clock.monotonic() - self._counted_at >= COUNT_SECONDS:
            self._count()
        left = self._left
        if left is None:
            return
        if end - size > left:
            self._counted_at = -COUNT_SECONDS
            self._account.doubt_space()
            self._warn(
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

    def _warn(self, message: str, argument: object) -> None:
        if clock.monotonic() - self._warned_at > WARN_INTERVAL_SECONDS:
            self._warned_at = clock.monotonic()
            log.warning(message, argument)
