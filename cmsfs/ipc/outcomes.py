"""What requests that work on many items have done."""

from typing import Literal

import pydantic

from cmsfs.ipc import diagnostics


class _Outcome(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Freed(_Outcome):
    """What a `Free` has dropped, and how many files' bytes are still here, and why."""

    kind: Literal["freed"] = "freed"
    files: int = 0
    bytes: int = 0
    unsent: int = 0  # the service does not have them, or not as they are here
    pinned: int = 0  # by a pin of their own or above them, or of another file with the same bytes
    in_use: int = 0  # open, or being fetched


class UndoneChange(_Outcome):
    """A change of one item that is taken back, or stays for the `reason`."""

    path: str
    action: Literal["contents", "place", "deletion", "new", "times"]
    reason: str = ""


class GuardUndone(_Outcome):
    """What of the changes that the guard has stopped is or would be taken back."""

    kind: Literal["guard-undone"] = "guard-undone"
    changes: list[UndoneChange] = []
    # Type and id of everything that the programs have changed, since then: some of it the service has.
    items: list[tuple[str, str]] = []
    since: pydantic.AwareDatetime | None = None
    folder: str = "/"
    running: list[str] = []  # the programs that still run
    kept: str = ""  # the folder of this machine where bytes that only we had are kept


class PinList(_Outcome):
    kind: Literal["pins"] = "pins"
    pins: diagnostics.Pinning


class PageAddress(_Outcome):
    """Where the page is; good once, and for a minute."""

    kind: Literal["page"] = "page"
    url: str


class Adopted(_Outcome):
    """What an `Adopt` has brought in, and what it could not."""

    kind: Literal["adopted"] = "adopted"
    items: int = 0
    renamed: list[str] = []  # names that were given, since something else had the old ones
    failed: list[str] = []  # with the reason; they are where they were
