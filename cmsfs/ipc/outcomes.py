"""Results of requests that work on many items."""

from typing import Literal

import pydantic

from cmsfs.ipc import diagnostics


class _Outcome(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Freed(_Outcome):
    """What a `Free` evicted, and how many files it had to keep, by reason."""

    kind: Literal["freed"] = "freed"
    files: int = 0
    bytes: int = 0
    unsent: int = 0  # not uploaded yet, or not in their current version
    pinned: int = 0  # by a pin on them or above them, or on another file with the same contents
    in_use: int = 0  # open, or being downloaded


class UndoneChange(_Outcome):
    """A change of one item that is undone, or that stays for the `reason`."""

    path: str
    action: Literal["contents", "place", "deletion", "new", "times"]
    reason: str = ""


class GuardUndone(_Outcome):
    """The changes noticed by the guard that are undone, or would be."""

    kind: Literal["guard-undone"] = "guard-undone"
    changes: list[UndoneChange] = []
    # Type and id of all items that the programs changed since `since`; some changes may be at the service.
    items: list[tuple[str, str]] = []
    since: pydantic.AwareDatetime | None = None
    folder: str = "/"
    running: list[str] = []  # the programs that are still running
    kept: str = ""  # the local folder where contents that only this machine has are kept


class PinList(_Outcome):
    kind: Literal["pins"] = "pins"
    pins: diagnostics.Pinning


class PageAddress(_Outcome):
    """The URL of the page; valid once, and for a minute."""

    kind: Literal["page"] = "page"
    url: str


class Adopted(_Outcome):
    """What an `Adopt` moved into the drive, and what it could not."""

    kind: Literal["adopted"] = "adopted"
    items: int = 0
    renamed: list[str] = []  # new names of items whose names were taken
    failed: list[str] = []  # with the reason; they were not moved
