"""Parses bandwidth limits: rates, and the times of day at which they apply."""

import re
from datetime import time
from typing import Annotated

import pydantic

_UNITS = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "ki": 1024, "mi": 1024**2, "gi": 1024**3}

# With a lower limit, one of many parallel streams could time out (client/transport/bandwidth.py).
SLOWEST = 32_000


def _rate(value: object) -> object:
    """Parse "2MB/s", "500 kB/s", "1.5 MiB" or a number to bytes per second; 0, "" and "none" mean no
    limit."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower().removesuffix("/s").removesuffix("b").strip()
    if text in ("", "none"):
        return 0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?i?)", text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{value!r} is not a rate such as 2MB/s or 500kB/s, or none")
    return int(float(found[1]) * _UNITS[found[2]])


def _fast_enough(rate: int) -> int:
    if 0 < rate < SLOWEST:
        raise ValueError(f"a limit must be at least {SLOWEST // 1000} kB/s")
    return rate


Rate = Annotated[
    int, pydantic.BeforeValidator(_rate), pydantic.Field(ge=0), pydantic.AfterValidator(_fast_enough)
]


class Bandwidth(pydantic.BaseModel):
    """Limits for a time of day, which may span midnight; a direction that is not given is unlimited."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    from_: time = pydantic.Field(alias="from")
    to: time
    up: Rate = 0
    down: Rate = 0

    def holds(self, now: time) -> bool:
        if self.from_ <= self.to:
            return self.from_ <= now < self.to
        return now >= self.from_ or now < self.to
