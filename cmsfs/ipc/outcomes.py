"""What requests that work on many items have done."""

from typing import Literal

import pydantic


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


class Adopted(_Outcome):
    """What an `Adopt` has brought in, and what it could not."""

    kind: Literal["adopted"] = "adopted"
    items: int = 0
    renamed: list[str] = []  # names that were given, since something else had the old ones
    failed: list[str] = []  # with the reason; they are where they were
