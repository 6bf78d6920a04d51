"""The entries of the file managers' context menus, as data.

`cmsfs menu ACTION` executes them (`commands/drive/menu.py`), and `packaging/menus.py` generates the menu
files for file managers without an extension of ours.
"""

from typing import NamedTuple

# The submenu of the entries.
TITLE = "Cloud Drive"


class FileMenuEntry(NamedTuple):
    """An entry: its action for `cmsfs menu`, its label and its icon."""

    action: str
    label: str
    icon: str
    many: bool = False  # also for several items at once
    files: bool = False  # only for files


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
