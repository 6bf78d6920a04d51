"""Names: what an item of the service is called here, and what a conflict copy is called.

The service's rule for clashes (`models.names.name_key`) and Linux's limits meet in this module.
"""

import re
from collections.abc import Callable
from datetime import date
from pathlib import PurePosixPath

from cmsfs.replica.nodes import Kind

# ext4, and with it every program, knows names of at most 255 bytes.
MAX_BYTES = 255

LINK_SUFFIX = ".url"


def file_name(kind: Kind, name: str) -> str:
    """The name in a folder here of an item that the service calls `name`.

    Web links end in `.url`, by which file managers know what they are.
    """
    if kind is Kind.LINK and not name.endswith(LINK_SUFFIX):
        name += LINK_SUFFIX
    # The service may hold what a folder here cannot: a slash or a NUL never comes, but costs nothing to bar.
    return name.replace("/", "\u2215").replace("\0", "\u2400")


def remote_name(kind: Kind, name: str) -> str:
    """The service's name for a node that is called `name` here: the inverse of `file_name`."""
    if kind is Kind.LINK:
        name = name.removesuffix(LINK_SUFFIX)
    return name


def distinct(name: str, tag: str) -> str:
    """`name` with `(tag)` before its suffix, cut so that it stays a legal name."""
    path = PurePosixPath(name)
    suffix = path.suffix
    stem = name[: len(name) - len(suffix)] if suffix else name
    room = MAX_BYTES - len(f" ({tag}){suffix}".encode())
    while len(stem.encode()) > room:
        stem = stem[:-1]
    return f"{stem} ({tag}){suffix}"


_CONFLICT_TAG = re.compile(r" \(conflicted copy of .*, \d{4}-\d\d-\d\d(, \d+)?\)(?=(\.[^.]*)?$)", re.DOTALL)

# What every conflict copy has in its name, as a pattern of SQL.
CONFLICT_LIKE = "%(conflicted copy of %"


def original_name(name: str) -> str | None:
    """The name that a conflict copy was made of; None for a name that is not one of a conflict copy."""
    found = _CONFLICT_TAG.search(name)
    return None if found is None else name[: found.start()] + name[found.end() :]


def conflict_name(name: str, host: str, day: date, *, taken: Callable[[str], bool]) -> str:
    """A free name for the copy that lost: `name (conflicted copy of HOST, DATE).ext`, numbered if need be."""
    tag = f"conflicted copy of {host}, {day.isoformat()}"
    candidate = distinct(name, tag)
    number = 2
    while taken(candidate):
        candidate = distinct(name, f"{tag}, {number}")
        number += 1
    return candidate
