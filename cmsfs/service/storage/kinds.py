"""Integer codes of item kinds and states in the database (see schema.sql)."""

from enum import IntEnum


class ItemKind(IntEnum):
    """Item kinds, in listing order."""

    FOLDER = 0
    FILE = 1
    WEB_LINK = 2


KIND_NAMES = {ItemKind.FOLDER: "folder", ItemKind.FILE: "file", ItemKind.WEB_LINK: "web_link"}
KINDS = {name: kind for kind, name in KIND_NAMES.items()}


class ItemStatus(IntEnum):
    """Whether an item is in its folder or in the trash."""

    ACTIVE = 0
    TRASHED = 1  # trashed itself
    BELOW_TRASH = 2  # below a trashed folder: not listed, found or restorable on its own
    ROOT = 3
