"""A drive in a few words, as `ipc.control.Follow` is answered.

Rule: as there, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic

# So many files that are on their way are named.
MOST_MOVING = 8


class DriveSummary(pydantic.BaseModel):
    """What an icon shows of a drive."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)

    kind: Literal["summary"] = "summary"
    account: str
    mountpoint: str
    state: str  # as `HealthStatus.state`
    reason: str = ""
    paused_until: pydantic.AwareDatetime | None = None
    pending: int = 0  # changes and downloads that go by themselves
    attention: int = 0  # what needs a person
    moving: list[str] = []  # paths of files on their way, below the mountpoint, at most MOST_MOVING
