"""Validates names that programs create on the drive, and knows those that are not shown.

The service decides what a name is; asking it would be too late, so its rules are applied here, before
anything is recorded.
"""

import errno
import logging
from collections.abc import Iterable

from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.replica.naming import MAX_BYTES, is_reserved
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

log = logging.getLogger(__name__)


def check(parent: Ino, name: str) -> None:
    """Raise the `OSError` for a name that cannot be made in this folder, with one log line that says why."""
    try:
        check_length(name)
    except OSError:
        log.warning(
            "a name of %d bytes is too long for the file system; choose a shorter one", len(name.encode())
        )
        raise
    # The desktop's own trash folders would be uploaded with all that is thrown away; programs that may not
    # make them delete for good instead, which on this drive means into the service's trash.
    if is_reserved(name, at_root=parent == ROOT):
        log.info("this name is reserved by the drive; choose another one")
        raise errno_map.oserror(errno.EPERM, name)
    problem = wire_names.name_problem(name)
    if problem is not None:
        log.warning("the service rejects this name (%s); choose another one", problem)
        raise errno_map.oserror(errno.EINVAL, name)


class ExcludedFolders:
    """The folders that this machine does not want to have on the drive, by their paths.

    They are in the tree like all others, and neither looked up nor listed.
    """

    def __init__(self, db: Database, paths: Iterable[str]) -> None:
        self._db = db
        self._keys = {key for path in paths if (key := wire_names.name_key(path.rstrip("/")))}
        self._names = {key.rpartition("/")[2] for key in self._keys}

    def hides(self, node: Node) -> bool:
        """Whether it is one of them."""
        if not self._keys or not node.is_folder or wire_names.name_key(node.name) not in self._names:
            return False
        return wire_names.name_key(tree.path(self._db, node.ino)) in self._keys

    def check(self, holder: Node | None) -> None:
        """Raise EPERM if the holder of a name that a program wants is one of them."""
        if holder is not None and self.hides(holder):
            log.warning("this name is that of a folder which the settings exclude (`exclude`)")
            raise errno_map.oserror(errno.EPERM, holder.name)


def check_length(name: str) -> None:
    """Raise the `OSError` for a name that no folder here can hold."""
    if len(name.encode(errors="surrogateescape")) > MAX_BYTES:
        raise errno_map.oserror(errno.ENAMETOOLONG, name)


def name_clash(name: str, holder: str) -> OSError:
    """The error for a name that is taken, with a log line if it is taken by one of other case."""
    if name != holder:
        log.warning("names are case-insensitive on this service; an item with this name exists")
    return errno_map.oserror(errno.EEXIST, name)
