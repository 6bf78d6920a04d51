"""Internals of the daemon in its status: parts of `ipc.control.DriveStatus`.

Rule: as in `ipc.control`, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Turns(_Part):
    waiting: int = 0
    running: int = 0


class SchedulerStatus(_Part):
    """Waiting and running requests by priority, the most urgent first."""

    held_up_seconds: float = 0.0  # until the service's rate limit (429) allows requests again
    queues: dict[str, Turns] = {}


class Gauges(_Part):
    """Resource counts that are small when the daemon is idle; one that stays high indicates a leak."""

    tasks: int = 0
    descriptors: int = 0
    memory_bytes: int = 0  # resident
    lookups: int = 0  # nodes that the kernel has cached
    opened: int = 0  # nodes with open handles
    doubts: int = 0  # deferred updates: remote changes that could not be applied yet


class LocalStatus(_Part):
    """Items that are never uploaded: symbolic links, and files that programs put beside documents."""

    items: int = 0
    bytes: int = 0


class HiddenFiles(_Part):
    """Files in the mountpoint's directory that the mount hides: saved there while nothing was mounted."""

    items: int = 0
    names: list[str] = []  # the first ones


class CacheStatus(_Part):
    """Size and use of the content cache."""

    used_bytes: int = 0
    limit_bytes: int = 0


class ListingStatus(_Part):
    """How much of the remote tree is listed."""

    state: Literal["unknown", "running", "complete"] = "unknown"
    items: int = 0
    total: int = 0  # items in the tree, as far as the service has reported; 0: unknown
    windows_left: int = 0  # search windows of a full enumeration still to be fetched, at least


class Pinned(_Part):
    """A pinned item and its progress; empty files are not counted."""

    path: str
    files: int = 0
    bytes: int = 0
    files_here: int = 0  # downloaded completely, with verified SHA-1
    bytes_here: int = 0
    listing: bool = False  # still being listed: there may be more files


class Pinning(_Part):
    """All pinned items."""

    items: list[Pinned] = []
    listing: bool = False  # at least one of them is still being listed
    problem: str = ""  # why downloading has stopped, in a sentence

    @property
    def is_complete(self) -> bool:
        return not self.listing and all(one.files_here == one.files for one in self.items)


class StalledLoop(_Part):
    """A loop that makes no progress."""

    name: str
    seconds: float = 0.0
    reason: str = ""  # with the remedy, in a sentence


class Troubles(_Part):
    """Problems that do not need the user yet."""

    stalled: list[StalledLoop] = []  # no progress for a minute
    left_out: list[str] = []  # the first items of the service that cannot be shown here, with the reason
    left_out_items: int = 0
    came_wrong: list[str] = []  # the first files whose downloads did not match the service's SHA-1


class HealthStatus(_Part):
    """The state of the connection to the service."""

    state: Literal["starting", "online", "offline", "unauthorised", "degraded", "read-only", "paused"] = (
        "starting"
    )
    since: pydantic.AwareDatetime
    reason: str = ""  # one sentence, with the remedy if there is one
    paused_until: pydantic.AwareDatetime | None = None  # if paused for a limited time
