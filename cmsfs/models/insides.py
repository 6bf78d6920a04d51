"""What a status tells of the daemon's insides: parts of `models.control.Status`.

Rule: as there, fields may be added, none is renamed.
"""

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)


class Turns(_Part):
    waiting: int = 0
    running: int = 0


class Budget(_Part):
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


class Local(_Part):
    """What lives on this machine only: symbolic links, and files that programs put beside documents."""

    items: int = 0
    bytes: int = 0
