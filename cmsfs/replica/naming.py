"""Names: what an item of the service is called here, and what a conflict copy is called.

The service's rule for clashes (`models.names.name_key`) and Linux's limits meet in this module.
"""

import hashlib
import re
from collections.abc import Callable
from datetime import date
from pathlib import PurePosixPath

from cmsfs.replica.nodes import Kind, Node

# ext4, and with it every program, knows names of at most 255 bytes.
MAX_BYTES = 255

MAX_SUFFIX_BYTES = 32

LINK_SUFFIX = ".url"


# What no folder here can hold: the separator, the end of a string, and halves of surrogate pairs.
_IMPOSSIBLE = re.compile("[/\0\ud800-\udfff]")

# Eight digits of a hash tell 65,000 long names of one folder apart without a clash to be expected.
_DIGITS = 8


def file_name(kind: Kind, name: str) -> str:
    """The name in a folder here of an item that the service calls `name`; always the same for the same name.

    Web links end in `.url`, by which file managers know what they are.  A name that Linux cannot hold is cut
    or mended, and has a hash of the whole name before its suffix, so that two such names stay two;
    `remote_name` knows the whole one again.
    """
    if kind is Kind.LINK and not name.endswith(LINK_SUFFIX):
        name += LINK_SUFFIX
    possible = _IMPOSSIBLE.sub("_", name)
    if possible == name and len(name.encode()) <= MAX_BYTES and name not in (".", ".."):
        return name
    digest = hashlib.sha1(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:_DIGITS]
    return distinct(possible.lstrip("."), f"#{digest}")


def remote_name(node: Node) -> str:
    """The service's name for a node: the inverse of `file_name`, also for one that was cut."""
    if node.base_name is not None and file_name(node.kind, node.base_name) == node.name:
        return node.base_name
    return node.name.removesuffix(LINK_SUFFIX) if node.kind is Kind.LINK else node.name


def distinct(name: str, tag: str) -> str:
    """`name` with `(tag)` before its suffix, cut so that it stays a legal name."""
    path = PurePosixPath(name)
    # A suffix that is a sentence is none.
    suffix = path.suffix if len(path.suffix.encode()) <= MAX_SUFFIX_BYTES else ""
    stem = name[: len(name) - len(suffix)] if suffix else name
    room = MAX_BYTES - len(f" ({tag}){suffix}".encode())
    while len(stem.encode()) > room:
        stem = stem[:-1]
    return f"{stem} ({tag}){suffix}"


_CONFLICT_TAG = re.compile(r" \(conflicted copy of .*, \d{4}-\d\d-\d\d(, \d+)?\)(?=(\.[^.]*)?$)", re.DOTALL)

# What every conflict copy has in its name; as it stands in the condition of the index node_conflict.
CONFLICT_MARK = " (conflicted copy of "


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
