"""The permission matrix: rights of each collaboration role.

A role is given on a file, or on a folder and then applies to everything below.  Several roles on the path to
an item add up.  `access_rights` finds the roles; `calls` asks for rights.

Rule: handlers ask for rights, never for roles.
"""

import enum
from typing import Final

from cmsfs.service.storage.kinds import ItemKind


class ItemRight(enum.Flag):
    """Rights on an item."""

    SEE = enum.auto()  # that it exists, its name and properties; a folder's items
    PREVIEW = enum.auto()
    DOWNLOAD = enum.auto()  # its bytes, and copy it
    COMMENT = enum.auto()
    UPLOAD = enum.auto()  # create items in a folder
    DESCRIBE = enum.auto()  # change its metadata
    EDIT = enum.auto()  # upload new versions, lock it
    CHANGE = enum.auto()  # its name, description and tags
    MOVE = enum.auto()  # to another folder or to the trash: a right on the parent folder
    LINK = enum.auto()  # create a shared link
    LINK_TERMS = enum.auto()  # set the link's access, remove the link
    INVITE = enum.auto()  # invite others; change their roles
    MANAGE = enum.auto()  # folder settings, view path, permanent deletion
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

# Roles that can be given on a single file.
_FOR_FILES: Final = ("editor", "viewer")

# A root cannot be changed, shared or moved by anybody.
ROOT: Final = ItemRight.SEE | ItemRight.PREVIEW | ItemRight.DOWNLOAD | ItemRight.UPLOAD

# Rights that a user's status takes away on every item, their own too.  Viewing, comments and sharing stay.
_EDITS: Final = ItemRight.EDIT | ItemRight.CHANGE | ItemRight.MOVE | ItemRight.DESCRIBE | ItemRight.MANAGE
FORBIDDEN_BY_STATUS: Final = {
    "cannot_delete_edit": _EDITS,
    "cannot_delete_edit_upload": _EDITS | ItemRight.UPLOAD,
}

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
        "can_upload": ItemRight.EDIT,  # a new version
        "can_view_annotations_all": ItemRight.PREVIEW,
        "can_view_annotations_self": ItemRight.PREVIEW,
    },
    ItemKind.WEB_LINK: _PERMISSIONS,
}


def offered(kind: ItemKind, rights: ItemRight) -> list[str]:
    """Return the roles that a user with these rights may give on an item."""
    if ItemRight.INVITE not in rights:
        return []
    names = _FOR_FILES if kind is ItemKind.FILE else ROLES
    return [name for name in names if name != CO_OWNER or ItemRight.MANAGE in rights]


def permissions(kind: ItemKind, rights: ItemRight) -> dict[str, bool]:
    """Return the `permissions` field of an item."""
    return {name: right in rights for name, right in PERMISSIONS[kind].items()}
