"""Validates the names that programs create on the drive, and hides excluded folders.

The service defines which names are valid; its rules are applied here before anything is recorded, because
its response would come too late.
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
    """Raise `OSError`, with a log line, if this name cannot be created in the folder."""
    try:
        check_length(name)
    except OSError:
        log.warning(
            "a name of %d bytes is too long for the file system; choose a shorter one", len(name.encode())
        )
        raise
    # The desktop's own trash folders would be uploaded with everything deleted; without them, programs delete
    # permanently, which on this drive means moving to the service's trash.
    if is_reserved(name, at_root=parent == ROOT):
        log.info("this name is reserved by the drive; choose another one")
        raise errno_map.oserror(errno.EPERM, name)
    problem = wire_names.name_problem(name)
    if problem is not None:
        log.warning("the service rejects this name (%s); choose another one", problem)
        raise errno_map.oserror(errno.EINVAL, name)


class ExcludedFolders:
    """The folders that this machine excludes from the drive, by their paths.

    They are in the tree as all others, but lookups do not find them and listings omit them.
    """

    def __init__(self, db: Database, paths: Iterable[str]) -> None:
        self._db = db
        self._keys = {key for path in paths if (key := wire_names.name_key(path.rstrip("/")))}
        self._names = {key.rpartition("/")[2] for key in self._keys}

    def hides(self, node: Node) -> bool:
        """Whether the node is an excluded folder."""
        if not self._keys or not node.is_folder or wire_names.name_key(node.name) not in self._names:
            return False
        return wire_names.name_key(tree.path(self._db, node.ino)) in self._keys

    def check(self, holder: Node | None) -> None:
        """Raise EPERM if the existing item with a name that a program wants is excluded."""
        if holder is not None and self.hides(holder):
            log.warning("this name is that of a folder which the settings exclude (`exclude`)")
            raise errno_map.oserror(errno.EPERM, holder.name)


def check_length(name: str) -> None:
    """Raise `OSError` (ENAMETOOLONG) if a name exceeds the maximum length of a file system name."""
    if len(name.encode(errors="surrogateescape")) > MAX_BYTES:
        raise errno_map.oserror(errno.ENAMETOOLONG, name)


def name_clash(name: str, holder: str) -> OSError:
    """Return the error for a name that is taken; log a warning if the existing name differs in case."""
    if name != holder:
        log.warning("names are case-insensitive on this service; an item with this name exists")
    return errno_map.oserror(errno.EEXIST, name)
