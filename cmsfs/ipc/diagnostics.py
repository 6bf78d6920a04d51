"""Internals of the daemon in its status: parts of `ipc.control.DriveStatus`.

Rule: as there, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Turns(_Part):
    waiting: int = 0
    running: int = 0


class SchedulerStatus(_Part):
    """Who has requests waiting or under way, by class, the most urgent first."""

    held_up_seconds: float = 0.0  # the service wants not to be asked for so long (429)
    queues: dict[str, Turns] = {}


class Gauges(_Part):
    """What grows while something is under way and is small at rest; what does not is a leak."""

    tasks: int = 0
    descriptors: int = 0
    memory_bytes: int = 0  # resident
    lookups: int = 0  # nodes that the kernel knows
    opened: int = 0  # nodes with open handles
    doubts: int = 0  # news that could not be taken over yet


class LocalStatus(_Part):
    """What lives on this machine only: symbolic links, and files that programs put beside documents."""

    items: int = 0
    bytes: int = 0


class HiddenFiles(_Part):
    """What lies in the mountpoint, where the drive covers it: saved while no drive was there."""

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
    total: int = 0  # how many there are, as far as the service has told; 0: not known
    windows_left: int = 0  # parts of a listing of everything that are still to be fetched, at the least


class Pinned(_Part):
    """An item that is kept here whole; empty files are not counted."""

    path: str
    files: int = 0
    bytes: int = 0
    files_here: int = 0  # complete, and checked against their SHA-1
    bytes_here: int = 0
    listing: bool = False  # not everything below it is known yet: there may be more


class Pinning(_Part):
    """All that is kept here."""

    items: list[Pinned] = []
    listing: bool = False  # of one of them, at least
    problem: str = ""  # why it does not go on, in a sentence

    @property
    def is_complete(self) -> bool:
        return not self.listing and all(one.files_here == one.files for one in self.items)


class StalledLoop(_Part):
    """A loop that makes no progress."""

    name: str
    seconds: float = 0.0
    reason: str = ""  # with what helps, in a sentence


class Troubles(_Part):
    """Problems that do not need the user yet."""

    stalled: list[StalledLoop] = []  # nothing was achieved for a minute
    left_out: list[str] = []  # the first items of the service that this machine cannot hold, with the reason
    left_out_items: int = 0
    came_wrong: list[str] = []  # the first files that came with other bytes than the service says they have


class HealthStatus(_Part):
    """The state of the connection to the service."""

    state: Literal["starting", "online", "offline", "unauthorised", "degraded", "read-only", "paused"] = (
        "starting"
    )
    since: pydantic.AwareDatetime
    reason: str = ""  # one sentence with the remedy, if there is one
    paused_until: pydantic.AwareDatetime | None = None  # while paused for a time
