"""Notices that cmsfs was installed anew under a running process, and keeps the new modules out of it.

An upgrade replaces the files of a drive that goes on with the old version.  What that has not loaded by then
it must not load any more: the module would be another version's.  So all that a drive may load late is loaded
soon after its start (`load_the_rest`).  What few ever load, the page, is refused then, with the remedy.

Rule: a version is told by its own file being the same one, not by its number: a package may be built twice.
"""

import importlib
import importlib.abc
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import cmsfs
from cmsfs import errors
from cmsfs.client import capabilities

# What a drive loads with the first use: each is named where it is imported, and why.
LATE = (
    "cmsfs.client.transport.connections",
    "cmsfs.client.transport.direct_transport",
    "cmsfs.client.transport.exchange",
    "cmsfs.client.transport.throttled_body",
    "cmsfs.ipc.notification_bus",
)
_OURS = ("cmsfs.", "daemon.")


class AnotherVersion(errors.UserError, ImportError):
    """What was to be loaded belongs to a version that is not the running one."""


class ReplacedFiles(importlib.abc.MetaPathFinder):
    """The installation that this process was started from."""

    def __init__(self, mark: Path = Path(cmsfs.__file__)) -> None:
        self._mark = mark
        self._seen = _identity(mark)

    def installed(self) -> str:
        """The version that is installed by now, if these are other files than the running ones; else ""."""
        found = _identity(self._mark)
        if found == self._seen:
            return ""
        if found is None:
            return "none"
        version = re.search(r'__version__ = "([^"]+)"', self._mark.read_text(encoding="utf-8"))
        return version[1] if version else "unknown"

    def guard(self) -> None:
        """From now on, no module of ours is loaded from other files."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(_OURS) and self.installed():
            raise AnotherVersion(
                "Another version of cmsfs was installed, and this drive still runs the old one;"
                " `cmsfs upgrade` switches it."
            )
        return None


def _identity(mark: Path) -> tuple[int, int, int] | None:
    try:
        found = mark.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)


def load_the_rest() -> None:
    """Load what would be loaded later.  In a thread: it takes a moment."""
    capabilities.load_all()
    for name in LATE:
        importlib.import_module(name)
