"""Integer codes of item kinds and states in the database (see schema.sql)."""

from enum import IntEnum


class ItemKind(IntEnum):
    """In the order in which a listing has them."""

    FOLDER = 0
    FILE = 1
    WEB_LINK = 2


KIND_NAMES = {ItemKind.FOLDER: "folder", ItemKind.FILE: "file", ItemKind.WEB_LINK: "web_link"}
KINDS = {name: kind for kind, name in KIND_NAMES.items()}


class ItemStatus(IntEnum):
    """Where an item is: in its folder, or in the trash."""

    ACTIVE = 0
    TRASHED = 1  # put in the trash itself
    BELOW_TRASH = 2  # under a folder that was: neither listed nor found nor restorable alone
    ROOT = 3
