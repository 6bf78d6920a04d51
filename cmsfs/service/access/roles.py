"""The permission matrix: rights of each collaboration role.

A role is given on a file, or on a folder and then holds for all below.  Who has several roles on the way
to an item has the rights of all of them together.  `access_rights` finds the roles, `access` asks for rights.

Rule: no handler looks at a role; it asks for a right.
"""

import enum
from typing import Final

from cmsfs.service.storage.kinds import ItemKind


class ItemRight(enum.Flag):
    """What may be done with an item."""

    SEE = enum.auto()  # that it is there, its name and properties; what is in a folder
    PREVIEW = enum.auto()
    DOWNLOAD = enum.auto()  # its bytes, and so a copy
    COMMENT = enum.auto()
    UPLOAD = enum.auto()  # new things into a folder
    DESCRIBE = enum.auto()  # its metadata
    EDIT = enum.auto()  # its bytes, a lock
    CHANGE = enum.auto()  # its name, description and tags
    MOVE = enum.auto()  # to elsewhere and into the trash: a right on the folder that it is in
    LINK = enum.auto()  # a shared link to it
    LINK_TERMS = enum.auto()  # for whom that link is, and taking it away
    INVITE = enum.auto()  # others; their roles
    MANAGE = enum.auto()  # a folder's settings, the folder above in the path, out of the trash for good
    OWN = enum.auto()


NONE: Final = ItemRight(0)
ALL: Final = ~NONE

_UPLOADER = ItemRight.SEE | ItemRight.UPLOAD | ItemRight.DESCRIBE
_PREVIEWER = ItemRight.SEE | ItemRight.PREVIEW | ItemRight.COMMENT
_VIEWER = _PREVIEWER | ItemRight.DOWNLOAD | ItemRight.LINK
_VIEWER_UPLOADER = _VIEWER | _UPLOADER | ItemRight.EDIT
_EDITOR = _VIEWER_UPLOADER | ItemRight.CHANGE | ItemRight.MOVE | ItemRight.LINK_TERMS | ItemRight.INVITE

OWNER: Final = "owner"
CO_OWNER: Final = "co-owner"

# In the order in which invitations offer them.
ROLES: Final = {
    "editor": _EDITOR,
    "viewer": _VIEWER,
    "previewer": _PREVIEWER,
    "uploader": _UPLOADER,
    "previewer uploader": _PREVIEWER | _UPLOADER,
    "viewer uploader": _VIEWER_UPLOADER,
    CO_OWNER: _EDITOR | ItemRight.MANAGE,
}

# A single file is shared with editors and viewers alone.
_FOR_FILES: Final = ("editor", "viewer")

# A root is nobody's to change, share or move.
ROOT: Final = ItemRight.SEE | ItemRight.PREVIEW | ItemRight.DOWNLOAD | ItemRight.UPLOAD

# What a user's status takes away on every item, their own too.  Looking, commenting and sharing stay.
_EDITS: Final = ItemRight.EDIT | ItemRight.CHANGE | ItemRight.MOVE | ItemRight.DESCRIBE | ItemRight.MANAGE
BARRED: Final = {"cannot_delete_edit": _EDITS, "cannot_delete_edit_upload": _EDITS | ItemRight.UPLOAD}

_PERMISSIONS: Final = {
    "can_delete": ItemRight.MOVE,
    "can_download": ItemRight.DOWNLOAD,
    "can_invite_collaborator": ItemRight.INVITE,
    "can_rename": ItemRight.CHANGE,
    "can_set_share_access": ItemRight.LINK_TERMS,
    "can_share": ItemRight.LINK,
    "can_apply_watermark": ItemRight.MANAGE,
}
PERMISSIONS: Final = {
    ItemKind.FOLDER: _PERMISSIONS | {"can_upload": ItemRight.UPLOAD},
    ItemKind.FILE: _PERMISSIONS
    | {
        "can_annotate": ItemRight.COMMENT,
        "can_comment": ItemRight.COMMENT,
        "can_preview": ItemRight.PREVIEW,
        "can_upload": ItemRight.EDIT,  # the next version
        "can_view_annotations_all": ItemRight.PREVIEW,
        "can_view_annotations_self": ItemRight.PREVIEW,
    },
    ItemKind.WEB_LINK: _PERMISSIONS,
}


def offered(kind: ItemKind, rights: ItemRight) -> list[str]:
    """The roles that somebody with these rights may give on an item."""
    if ItemRight.INVITE not in rights:
        return []
    names = _FOR_FILES if kind is ItemKind.FILE else ROLES
    return [name for name in names if name != CO_OWNER or ItemRight.MANAGE in rights]


def permissions(kind: ItemKind, rights: ItemRight) -> dict[str, bool]:
    """The `permissions` of an item."""
    return {name: right in rights for name, right in PERMISSIONS[kind].items()}
