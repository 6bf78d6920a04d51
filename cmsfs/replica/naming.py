"""Local names of remote items, and names of conflict copies.

Combines the service's rule for name clashes (`models.wire_names.name_key`) with Linux's limits.
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import PurePosixPath

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Node, NodeKind

# ext4, and so every program, supports names of at most 255 bytes.
MAX_BYTES = 255

MAX_SUFFIX_BYTES = 32

LINK_SUFFIX = ".url"


# Characters that no local name can contain: the separator, NUL, and lone surrogates.
_IMPOSSIBLE = re.compile("[/\0\ud800-\udfff]")

# Eight hex digits of a hash distinguish 65,000 long names in one folder with no clash expected.
_DIGITS = 8


# Names with a meaning for the drive itself: in its root (`.Trash`, `.Trash-1000`: a disk's trash for
# desktops), and as a suffix of any file's name.
_ROOT_NAMES = (".trash", ".search", ".by", ".shared")
_ROOT_PREFIX = ".trash-"
VERSIONS_SUFFIX = "@versions"

# Names with a meaning for programs in any folder, besides those that begin with a dot: files that file
# managers run or obey on a disk, and files that make a folder a repository, whose settings can name programs.
_CONTROL_NAMES = frozenset({"autorun.inf", "autorun", "autorun.sh", "autoopen", "desktop.ini", "head"})


def is_reserved(name: str, *, at_root: bool, also: Iterable[str] = ()) -> bool:
    """Whether a name is reserved by the drive; `also`: further reserved names of the root."""
    key = name.casefold()
    if key.endswith(VERSIONS_SUFFIX):
        return True
    return at_root and (key in _ROOT_NAMES or key.startswith(_ROOT_PREFIX) or name in also)


def file_name(
    kind: NodeKind, name: str, *, at_root: bool = False, foreign: bool = False, reserved: Iterable[str] = ()
) -> str:
    """Return the local name of an item that is called `name` at the service; deterministic.

    Web links end in `.url`, by which file managers recognize them.  A name that Linux cannot represent is
    truncated or repaired, and gets a hash of the whole name before its suffix, so that two such names stay
    distinct; `remote_name` recovers the original.  So does a reserved name (`at_root`: in the drive's root,
    where `reserved` are further ones), and, for shared items (`foreign`), a name that controls programs.
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
    """Return the name with the tag at its end, so that it has another suffix."""
    stem, tag = name.lstrip("."), f" ({_tag(name)})"
    while len(f"{stem}{tag}".encode()) > MAX_BYTES:
        stem = stem[:-1]
    return stem + tag


def additions(name: str, remote_id: str) -> Iterator[str]:
    """Yield the alternative names of an item whose name is taken, in order of preference."""
    yield distinct(name, f"id {remote_id}")
    for number in itertools.count(2):
        yield distinct(name, f"id {remote_id}, {number}")


def remote_name(node: Node) -> str:
    """Return the service's name for a node: the inverse of `file_name`, also for truncated names and
    suffixes."""
    if node.base_name is not None and node.remote_id is not None and is_shown_as(node):
        return node.base_name
    return node.name.removesuffix(LINK_SUFFIX) if node.kind is NodeKind.LINK else node.name


def is_shown_as(node: Node) -> bool:
    """Whether a node's name is one of the local names of its item."""
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
    """Return the name of a web link when a file has `name`, which the link would have."""
    return distinct(name, f"link {remote_id}")


def link_name(name: str) -> str | None:
    """Return the service's name for a web link with this local name; None if a web link cannot have it."""
    stem = name.removesuffix(LINK_SUFFIX)
    if stem == name or wire_names.name_problem(stem) is not None or file_name(NodeKind.LINK, stem) != name:
        return None
    return stem


def distinct(name: str, tag: str) -> str:
    """Return `name` with `(tag)` before its suffix, truncated to a valid length."""
    path = PurePosixPath(name)
    # A very long suffix is not a file type.
    suffix = path.suffix if len(path.suffix.encode()) <= MAX_SUFFIX_BYTES else ""
    stem = name[: len(name) - len(suffix)] if suffix else name
    room = MAX_BYTES - len(f" ({tag}){suffix}".encode())
    while len(stem.encode()) > room:
        stem = stem[:-1]
    return f"{stem} ({tag}){suffix}"


_CONFLICT_TAG = re.compile(r" \(conflicted copy of .*, \d{4}-\d\d-\d\d(, \d+)?\)(?=(\.[^.]*)?$)", re.DOTALL)

# Part of every conflict copy's name; also in the condition of the index node_conflict.
CONFLICT_MARK = " (conflicted copy of "


def original_name(name: str) -> str | None:
    """Return the original name of a conflict copy; None for any other name."""
    found = _CONFLICT_TAG.search(name)
    return None if found is None else name[: found.start()] + name[found.end() :]


def conflict_name(name: str, host: str, day: date, *, taken: Callable[[str], bool]) -> str:
    """Return a free name for a conflict copy: `name (conflicted copy of HOST, DATE).ext`, numbered if
    necessary."""
    tag = f"conflicted copy of {host}, {day.isoformat()}"
    candidate = distinct(name, tag)
    number = 2
    while taken(candidate):
        candidate = distinct(name, f"{tag}, {number}")
        number += 1
    return candidate
