"""Local names of remote items, and names of conflict copies.

The service's rule for clashes (`models.wire_names.name_key`) and Linux's limits meet in this module.
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import PurePosixPath

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Node, NodeKind

# ext4, and with it every program, knows names of at most 255 bytes.
MAX_BYTES = 255

MAX_SUFFIX_BYTES = 32

LINK_SUFFIX = ".url"


# What no folder here can hold: the separator, the end of a string, and halves of surrogate pairs.
_IMPOSSIBLE = re.compile("[/\0\ud800-\udfff]")

# Eight digits of a hash tell 65,000 long names of one folder apart without a clash to be expected.
_DIGITS = 8


# Names that mean something to the drive itself: in its root (`.Trash`, `.Trash-1000`: what desktops take for
# the trash of a disk), and behind the name of a file anywhere.
_ROOT_NAMES = (".trash", ".search", ".by", ".shared")
_ROOT_PREFIX = ".trash-"
VERSIONS_SUFFIX = "@versions"

# Names that mean something to programs in whatever folder they look, beside all that begin with a dot: what
# file managers run or obey on a disk, and what makes a folder a repository whose settings name programs.
_CONTROL_NAMES = frozenset({"autorun.inf", "autorun", "autorun.sh", "autoopen", "desktop.ini", "head"})


def is_reserved(name: str, *, at_root: bool, also: Iterable[str] = ()) -> bool:
    """Whether a name is the drive's own; `also`: further ones of the root."""
    key = name.casefold()
    if key.endswith(VERSIONS_SUFFIX):
        return True
    return at_root and (key in _ROOT_NAMES or key.startswith(_ROOT_PREFIX) or name in also)


def file_name(
    kind: NodeKind, name: str, *, at_root: bool = False, foreign: bool = False, reserved: Iterable[str] = ()
) -> str:
    """The name in a folder here of an item that the service calls `name`; always the same for the same name.

    Web links end in `.url`, by which file managers know what they are.  A name that Linux cannot hold is cut
    or mended, and has a hash of the whole name before its suffix, so that two such names stay two;
    `remote_name` knows the whole one again.  So has one that is reserved (`at_root`: in the drive's root,
    where `reserved` are further ones), and of what others share (`foreign`) one that controls programs.
    """
    if kind is NodeKind.LINK and not name.endswith(LINK_SUFFIX):
        name += LINK_SUFFIX
    possible = _IMPOSSIBLE.sub("_", name)
    is_good = possible == name and len(name.encode()) <= MAX_BYTES and name not in (".", "..")
    if is_good and is_reserved(name, at_root=at_root, also=reserved):
        return _tagged(name)
    if is_good and not (foreign and (name.startswith(".") or name.casefold() in _CONTROL_NAMES)):
        return name
    return distinct(possible.lstrip("."), _tag(name))


def _tag(name: str) -> str:
    digest = hashlib.sha1(name.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"#{digest[:_DIGITS]}"


def _tagged(name: str) -> str:
    """The name with the tag at its end, where it hides what the name ends in."""
    stem, tag = name.lstrip("."), f" ({_tag(name)})"
    while len(f"{stem}{tag}".encode()) > MAX_BYTES:
        stem = stem[:-1]
    return stem + tag


def additions(name: str, remote_id: str) -> Iterator[str]:
    """What an item is called when its name is taken by what goes before it, the first that is free."""
    yield distinct(name, f"id {remote_id}")
    for number in itertools.count(2):
        yield distinct(name, f"id {remote_id}, {number}")


def remote_name(node: Node) -> str:
    """The service's name for a node: the inverse of `file_name`, also for one that was cut or has an
    addition."""
    if node.base_name is not None and node.remote_id is not None and is_shown_as(node):
        return node.base_name
    return node.name.removesuffix(LINK_SUFFIX) if node.kind is NodeKind.LINK else node.name


def is_shown_as(node: Node) -> bool:
    """Whether a node is called what its item may be called here."""
    assert node.base_name is not None
    assert node.remote_id is not None
    if node.name == node.base_name:
        return node.kind is not NodeKind.LINK or node.name.endswith(LINK_SUFFIX)
    usual = {
        file_name(node.kind, node.base_name, at_root=at_root, foreign=foreign)
        for at_root, foreign in ((False, False), (True, False), (True, True))
    } | {_tagged(node.base_name)}
    return any(
        node.name == name
        or (node.kind is NodeKind.LINK and node.name == link_beside(name, node.remote_id))
        or node.name in itertools.islice(additions(name, node.remote_id), 3)
        for name in usual
    )


def link_beside(name: str, remote_id: str | None) -> str:
    """What a web link is called when a file is really called `name`, as it would be."""
    return distinct(name, f"link {remote_id}")


def link_name(name: str) -> str | None:
    """The service's name for a web link that is called `name` here; None if no web link can be."""
    stem = name.removesuffix(LINK_SUFFIX)
    if stem == name or wire_names.name_problem(stem) is not None or file_name(NodeKind.LINK, stem) != name:
        return None
    return stem


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
