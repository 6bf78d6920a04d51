"""Search results on the control socket.

Rule: as in `ipc.control`, fields may be added, none is renamed.
"""

from typing import Literal

import pydantic


class FoundItem(pydantic.BaseModel):
    """A match, with its path from the drive's root."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)

    type: str  # as the service calls it: file, folder, web_link
    path: str
    size: int | None = None  # bytes, of a file
    modified_at: pydantic.AwareDatetime | None = None


class FoundItems(pydantic.BaseModel):
    """At most `limit` matches, and the total as far as it is known."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, defer_build=True)

    kind: Literal["found"] = "found"
    entries: list[FoundItem] = []
    total: int = 0
    partial: str = ""  # where the search was limited to, if the service was not asked
