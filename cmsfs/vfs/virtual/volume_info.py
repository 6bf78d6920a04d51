"""`.xdg-volume-info` at the root: what file managers call the drive in their side panes, and its icon.

GVfs looks for the file when something is mounted.  It is in no listing, so it is neither copied nor backed
up, and it is at no service.

Rule: an item of that name goes before it: whoever has called their drive something means it.
"""

from collections.abc import Callable

from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualNode

NAME = ".xdg-volume-info"


class VolumeInfo(Views):
    """Finds the file; `title` says what the drive is called now, `icon` is a name of the icon theme."""

    def __init__(self, title: Callable[[], str], icon: str) -> None:
        self._title = title
        self._icon = icon

    def covers(self, name: str) -> bool:
        return name == NAME

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        return VolumeInfoFile(self._title(), self._icon) if parent == ROOT else None


class VolumeInfoFile(VirtualFile):
    """The file, a key file of GLib's."""

    def __init__(self, title: str, icon: str) -> None:
        # Always of one time, or whoever compares would find it changed at each look.
        super().__init__("volume info", mtime_ns=0)
        self._data = f"[Volume Info]\nName={_value(title)}\nIcon={icon}\n".encode()
        self.size = len(self._data)

    async def open(self) -> bytes:
        return self._data


def _value(text: str) -> str:
    """A text as a value in a key file: of one line, without escapes."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("\\", "\\\\")
