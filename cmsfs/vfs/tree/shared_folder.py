"""Restrictions of the folder `Shared with me`: nothing is created, deleted or moved there.

The service has no such folder: it shows the items that others share, which cannot be moved.  They can be
renamed and changed as the collaboration role allows; so programs may create local-only temporary files beside
one to save it.

Rule: raises `OSError` (EPERM; EXDEV if a copy works instead), before anything is changed.
"""

import errno
import logging

from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.vfs import errno_map
from cmsfs.vfs.heuristics.local_files import LocalFiles

log = logging.getLogger(__name__)

NOTHING = "items cannot be created among shared items: use one of the shared folders"
STAYS = "shared items cannot be moved: copy them"


def check_making(folder: Node, name: str, kind: NodeKind, local_names: LocalFiles, *, is_save: bool) -> None:
    """Check a creation in `folder`.  `is_save`: an item of this name has just been renamed away."""
    if folder.is_shelf and not (kind is NodeKind.FILE and (is_save or _is_temporary(name, local_names))):
        raise _refusal(NOTHING)


def check_removal(node: Node) -> None:
    if node.is_shelf:
        raise _refusal("the folder is reserved by the drive")


def check_rename(
    node: Node,
    target: Node | None,
    old: Node,
    new: Node,
    name: str,
    local_names: LocalFiles,
    *,
    is_save: bool,
) -> None:
    """Check a rename from folder `old` to `new`, where `target` has the name.  `is_save` as above."""
    for one in (node, target):
        if one is not None:
            check_removal(one)
    if old.is_shelf and not new.is_shelf and not node.local:
        raise _refusal(STAYS)
    if not new.is_shelf:
        return
    if not old.is_shelf:
        raise _refusal(NOTHING, errno.EXDEV if target is not None else errno.EPERM)
    if node.local:
        if target is None and not is_save and not _is_temporary(name, local_names):
            raise _refusal(NOTHING)
    elif target is not None and not target.local:
        raise _refusal(STAYS)


def check_exchange(old: Node, new: Node) -> None:
    if old.is_shelf or new.is_shelf:
        raise _refusal(STAYS)


def _is_temporary(name: str, local_names: LocalFiles) -> bool:
    """Whether this is the name of a temporary file: hidden, or matched by the local patterns."""
    return name.startswith(".") or local_names.matches(name)


def _refusal(why: str, number: int = errno.EPERM) -> OSError:
    log.info("%s", why)
    return errno_map.oserror(number, why)
