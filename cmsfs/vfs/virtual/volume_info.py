"""`.xdg-volume-info` at the root: the drive's name and icon in the side panes of file managers.

GVfs looks up the file after a mount.  It is not listed, so it is neither copied nor backed up, and it is not
stored at the service.

Rule: an item with that name has precedence, because the user has chosen the drive's name with it.
"""

from collections.abc import Callable

from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualNode

NAME = ".xdg-volume-info"


class VolumeInfo(Views):
    """Finds the file; `title` returns the drive's current name, `icon` is a name of the icon theme."""

    def __init__(self, title: Callable[[], str], icon: str) -> None:
        self._title = title
        self._icon = icon

    def covers(self, name: str) -> bool:
        return name == NAME

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        return VolumeInfoFile(self._title(), self._icon) if parent == ROOT else None


class VolumeInfoFile(VirtualFile):
    """The file, in GLib's key file format."""

    def __init__(self, title: str, icon: str) -> None:
        # A constant time, or the file would seem changed at each lookup.
        super().__init__("volume info", mtime_ns=0)
        self._data = f"[Volume Info]\nName={_value(title)}\nIcon={icon}\n".encode()
        self.size = len(self._data)

    async def open(self) -> bytes:
        return self._data


def _value(text: str) -> str:
    """Return a text as a value in a key file: one line, without escapes."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("\\", "\\\\")
