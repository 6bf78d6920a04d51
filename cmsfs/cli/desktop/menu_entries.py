"""What file managers offer in their menus: the entries, as data.

`cmsfs menu ACTION` carries each out (`commands/drive/menu.py`), and `packaging/menus.py` makes the files of
them by which file managers without an extension of ours show them.
"""

from typing import NamedTuple

# What the entries are below.
TITLE = "Cloud Drive"


class FileMenuEntry(NamedTuple):
    """An entry: what `cmsfs menu` calls it, its words and its icon."""

    action: str
    label: str
    icon: str
    many: bool = False  # of several items at once
    files: bool = False  # of files alone


ENTRIES = (
    FileMenuEntry("pin", "Make Available Offline", "emblem-cmsfs-pinned", many=True),
    FileMenuEntry("free", "Free Up Space", "edit-clear", many=True),
    FileMenuEntry("link", "Copy Shared Link", "edit-copy"),
    FileMenuEntry("share", "Share…", "emblem-shared"),
    FileMenuEntry("versions", "Show Versions", "document-open-recent", files=True),
    FileMenuEntry("restore", "Restore a Version…", "edit-undo", files=True),
    FileMenuEntry("trash", "Restore Deleted Files…", "user-trash"),
    FileMenuEntry("conflict", "Solve Conflicts…", "emblem-cmsfs-conflict"),
    FileMenuEntry("web", "Open on the Web", "applications-internet"),
    FileMenuEntry("status", "Show Sync Status", "cmsfs"),
)
