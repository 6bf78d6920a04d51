"""The summary of a drive that answers `ipc.control.Follow`.

Rule: as in `ipc.control`, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic

# At most this many files being transferred are listed.
MAX_MOVING = 8


class DriveSummary(pydantic.BaseModel):
    """The state of a drive that its tray icon shows."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)

    kind: Literal["summary"] = "summary"
    account: str
    mountpoint: str
    state: str  # as `HealthStatus.state`
    reason: str = ""
    paused_until: pydantic.AwareDatetime | None = None
    pending: int = 0  # changes and downloads that need no user action
    attention: int = 0  # items that need the user's attention
    moving: list[str] = []  # paths of files being transferred, relative to the mountpoint, at most MAX_MOVING
