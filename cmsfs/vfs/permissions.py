"""The account's permissions on items as mode bits and errnos.

`NodeRight` is what the drive asks about; the agent above knows which rights there are (`ports.AccountPort`).
What was made here and is not at the service yet is ours.

Rule: a missing right shows before work is lost: at `open`, `create`, `rename`, `unlink`, not at an upload
that is refused later.  What is not known is allowed; the service has the last word.
"""

import enum
import errno
import logging
import os
from collections.abc import Callable

from cmsfs.replica.nodes import Node
from cmsfs.vfs import errno_map

log = logging.getLogger(__name__)


class NodeRight(enum.Flag):
    """A right on a node."""

    READ = enum.auto()  # its bytes
    WRITE = enum.auto()  # a new version of a file; new things in a folder
    RENAME = enum.auto()
    DELETE = enum.auto()  # also: move it elsewhere
    LEAVE = enum.auto()  # have it shown here no more, where somebody else shares it: everybody may


NONE = NodeRight(0)
ALL = ~NONE

_READ_BITS = 0o444
_WRITE_BITS = 0o222


def needed(flags: int) -> NodeRight:
    """Return the rights needed to open a file with these flags."""
    cutting = NodeRight.WRITE if flags & os.O_TRUNC else NONE
    if flags & os.O_WRONLY:
        return NodeRight.WRITE
    return NodeRight.READ | NodeRight.WRITE if flags & os.O_RDWR else NodeRight.READ | cutting


def _kept(node: Node) -> NodeRight:
    """Return the rights that always apply: unsent local bytes can be read here."""
    is_unsent = node.draft is not None or (node.sha1 is not None and node.sha1 != node.base_sha1)
    return NodeRight.READ if is_unsent and not node.is_folder else NONE


def mode(node: Node, rights: NodeRight) -> int:
    """Return the node's permission bits without those that the service would not honour."""
    if rights is ALL:
        return node.mode
    bits, rights = node.mode, rights | _kept(node)
    if NodeRight.READ not in rights and not node.is_folder:
        bits &= ~_READ_BITS
    if NodeRight.WRITE not in rights:
        bits &= ~_WRITE_BITS
    return bits


def check(
    node: Node,
    rights: NodeRight,
    needed: NodeRight,
    find_reason: Callable[[Node], str | None] | None = None,
) -> None:
    """Raise PermissionError (EACCES) unless all needed rights are allowed; `find_reason` returns the reason
    if it is not the account's role."""
    if needed in rights or needed in rights | _kept(node):
        return
    if find_reason is not None and (reason := find_reason(node)) is not None:
        # Log the reason: the permission bits show the account's role, but not this.
        log.info("%s cannot be changed: %s", node.name, reason)
        raise errno_map.oserror(errno.EACCES, f"{node.name}: {reason}")
    missing = ", ".join(str(right.name).lower() for right in needed & ~rights)
    raise errno_map.oserror(errno.EACCES, f"{node.name}: the service does not permit you to {missing}")
