"""Whether programs use the drive, which sets the polling interval."""

from cmsfs.replica.inodes import Inodes
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates


class Activity:
    """Returns whether the drive was used or changed since the last call.

    Requests that the kernel answers from its caches are not seen; remote activity counts as use, since
    somebody may look.
    """

    def __init__(self, inodes: Inodes, health: Health, remote_updates: RemoteUpdates) -> None:
        self._remote_updates = remote_updates
        self._inodes = inodes
        self._health = health
        self._last: tuple[int, ...] = ()

    def __call__(self) -> bool:
        lookups, opened = self._inodes.totals()
        requests = self._health.requests
        now = (lookups, opened, requests["read"], requests["upload"], self._remote_updates.applied)
        used = now != self._last or opened > 0
        self._last = now
        return used
