"""Resolves a conflict as the user has chosen: the copy, the original, or both.

The other version goes to the service's trash or becomes an earlier version, as if a program had done it: no
choice loses data.

Rule: the choice applies only to the two versions that the user has seen.
"""

import enum
import itertools

from cmsfs import errors
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database
from cmsfs.vfs.tree.filesystem import Filesystem

CHANGED = "One of the versions has changed meanwhile; look at them again."

# Part of the name of a copy that is kept beside the original.
KEPT = "my version"


class Keep(enum.StrEnum):
    """The choices of the user."""

    MINE = "mine"  # the copy takes the name, with the original as its earlier version
    THEIRS = "theirs"  # the copy goes to the trash
    BOTH = "both"  # the copy stays, as a separate file


def original(db: Database, copy: Node) -> Node | None:
    """Return the item with the name that a conflict copy lost, if there is one."""
    name = naming.original_name(copy.name)
    if name is None or copy.parent is None:
        return None
    return tree.find_child(db, copy.parent, name)


def mark(node: Node | None) -> str:
    """Return a value that differs between versions of an item."""
    if node is None:
        return ""
    # The contents of a draft have no SHA-1 yet.
    drafted = "" if node.draft is None else f"{node.draft}.{node.mtime_ns}"
    return f"{node.ino}.{node.sha1 or ''}.{drafted}.{node.size}"


async def settle(
    fs: Filesystem, hub: Hub, db: Database, copy: Node, keep: Keep, seen: tuple[str, str]
) -> str:
    """Resolve the conflict between the copy and its original; return the copy's new name, if it stays.

    `seen`: the marks of both as the user saw them.  Raises `UserError`, and the `OSError` that a program
    would get.
    """
    name, other = naming.original_name(copy.name), original(db, copy)
    if name is None or copy.parent is None:
        raise errors.UserError(f"{copy.name} is no conflict copy.")
    if (mark(copy), mark(other)) != seen:
        raise errors.UserError(CHANGED)
    if keep is Keep.THEIRS:
        if other is None:
            raise errors.UserError("There is no other version any more.")
        await (fs.rmdir if copy.is_folder else fs.unlink)(copy.parent, copy.name)
        hub.publish([Change(ChangeKind.GONE, copy.ino, copy.parent, copy.name)])
        return ""
    if keep is Keep.MINE and other is not None and (other.is_folder or copy.is_folder):
        raise errors.UserError("Of a folder both are kept; move what is in it, and delete the other.")
    if keep is Keep.BOTH:
        name = _free_name(db, copy, name)
    await fs.rename(copy.parent, copy.name, copy.parent, name, 0)
    gone = [] if other is None or keep is Keep.BOTH else [Change(ChangeKind.CONTENT, other.ino)]
    hub.publish(
        [
            Change(ChangeKind.ENTRY, copy.ino, copy.parent, copy.name),
            Change(ChangeKind.ENTRY, copy.ino, copy.parent, name),
            *gone,
        ]
    )
    return name


def _free_name(db: Database, copy: Node, name: str) -> str:
    """Return a free name for a copy that stays beside the original."""
    assert copy.parent is not None
    wanted = naming.distinct(name, KEPT)
    for number in itertools.count(2):
        if tree.find_clash(db, copy.parent, wanted) is None:
            break
        wanted = naming.distinct(name, f"{KEPT}, {number}")
    return wanted
