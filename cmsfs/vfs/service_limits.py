"""Refuses at the call what the drive's service has no operation for, with one line of the log that says so.

A service may offer less than a drive needs: `lacks` tells.  What it could never be told is not done here
either, so nothing waits for ever, and nothing shows that is not so.  What only this machine has, because it
is local or was not sent yet, can be changed as ever.

Rule: raises `OSError` only, before anything is changed: EROFS for bytes and times of files, EPERM for their
places, ENOTSUP for attributes.
"""

import errno
import logging
import time
from collections.abc import Callable

from cmsfs.config.abilities import Ability
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.replica.rows import in_flight
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

log = logging.getLogger(__name__)

# A program that is refused goes on to the next of ten thousand files.
QUIET_SECONDS = 60.0


class ServiceLimits:
    """`lacks` tells what the service does not offer."""

    def __init__(self, db: Database, lacks: Callable[[Ability], bool] = lambda ability: False) -> None:
        self._db = db
        self._lacks = lacks
        self._said: dict[Ability, float] = {}

    def check_write(self, node: Node) -> None:
        """Its bytes, or what a web link says, are to be others."""
        if not node.is_folder:
            self._check(
                node, Ability.CHANGES if node.kind is NodeKind.LINK else Ability.VERSIONS, errno.EROFS
            )

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
        if not local and self._lacks(Ability.FOLDERS):
            raise self._refusal(Ability.FOLDERS, errno.EPERM, name)

    def check_description(self, node: Node) -> None:
        """It is to have another description or other tags, now or when it is sent."""
        if not node.local and self._lacks(Ability.CHANGES):
            raise self._refusal(Ability.CHANGES, errno.ENOTSUP, node.name)

    def check_metadata(self, node: Node) -> None:
        """A value of its metadata is to be set, now or when it is sent."""
        if not node.local and self._lacks(Ability.METADATA):
            raise self._refusal(Ability.METADATA, errno.ENOTSUP, node.name)

    def _check(self, node: Node, ability: Ability, number: int) -> None:
        if self._lacks(ability) and self._is_at_service(node):
            raise self._refusal(ability, number, node.name)

    def _is_at_service(self, node: Node) -> bool:
        """Whether the service has the item, or may have it: it is being sent."""
        return node.remote_id is not None or bool(in_flight.new_items(self._db, node.ino))

    def _refusal(self, ability: Ability, number: int, name: str) -> OSError:
        now = time.monotonic()
        if now - self._said.get(ability, float("-inf")) > QUIET_SECONDS:
            self._said[ability] = now
            log.warning("%s is left as it is: this service cannot %s", name, ability.cannot)
        return errno_map.oserror(number, f"{name}: this service cannot {ability.cannot}")
