"""Detects that cmsfs was reinstalled under a running process, and prevents it from loading the new modules.

An upgrade replaces the files of a drive that continues with the old version.  Modules not loaded by then must
not be loaded any more: they would belong to another version.  So modules that a drive may load late are
loaded soon after its start (`load_the_rest`).  Modules that few drives load, the web page, are then refused
with advice.

Rule: a version is identified by its file, not by its number: a package may be built twice.
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

# Modules that are imported on first use; the reason is at each import.
LATE = (
    "cmsfs.client.transport.connections",
    "cmsfs.client.transport.direct_transport",
    "cmsfs.client.transport.exchange",
    "cmsfs.client.transport.throttled_body",
    "cmsfs.ipc.notification_bus",
)
_OURS = ("cmsfs.", "daemon.")


class AnotherVersion(errors.UserError, ImportError):
    """A module to be loaded belongs to another version than the running one."""


class ReplacedFiles(importlib.abc.MetaPathFinder):
    """The installation from which this process was started."""

    def __init__(self, mark: Path = Path(cmsfs.__file__)) -> None:
        self._mark = mark
        self._seen = _identity(mark)

    def installed(self) -> str:
        """Return the installed version if its files are not the running ones; else ""."""
        found = _identity(self._mark)
        if found == self._seen:
            return ""
        if found is None:
            return "none"
        version = re.search(r'__version__ = "([^"]+)"', self._mark.read_text(encoding="utf-8"))
        return version[1] if version else "unknown"

    def guard(self) -> None:
        """From now on, refuse to load our modules from other files."""
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
    """Load the late modules.  Runs in a thread: it takes a moment."""
    capabilities.load_all()
    for name in LATE:
        importlib.import_module(name)
