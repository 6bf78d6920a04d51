"""Description and tags as xattrs, under our names and freedesktop's.

They are journaled like every change of a file: setting them works at once, offline, and on what the service
does not have yet, and is sent as one request when it has rested.  What can be wrong with them (their length)
is judged here, so nothing is refused later.

Rule: on what stays on this machine the freedesktop names are programs' own.
"""

import errno
import logging
from sqlite3 import Connection
from typing import Any

from cmsfs.journal import ops
from cmsfs.replica import item_details, tree
from cmsfs.replica.item_details import Described
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.rows import xattr_rows
from cmsfs.vfs import errno_map
from cmsfs.vfs.attrs import item_fields, user_xattrs

log = logging.getLogger(__name__)

DESCRIPTION = "description"
TAGS = "tags"

XDG_COMMENT = "user.xdg.comment"
XDG_TAGS = "user.xdg.tags"

# Names that programs use, and what they mean of an item.
_MEANINGS = {
    f"{item_fields.PREFIX}{DESCRIPTION}": DESCRIPTION,
    f"{item_fields.PREFIX}{TAGS}": TAGS,
    XDG_COMMENT: DESCRIPTION,
    XDG_TAGS: TAGS,
}

MAX_DESCRIPTION = 256
MAX_TAGS = 100


def meaning(node: Node, name: str) -> str | None:
    """What setting this name on a node says of its item; None if it says nothing."""
    word = _MEANINGS.get(name)
    if node.local or node.ino == ROOT or node.kind is NodeKind.SYMLINK:
        return None
    return None if word == TAGS and node.kind is NodeKind.LINK else word


def overlaid(item: dict[str, Any], wish: Described) -> dict[str, Any]:
    """An item in its wire form, with what was set here in it."""
    given = {DESCRIPTION: wish.description, TAGS: wish.tags}
    return item | {key: value for key, value in given.items() if value is not None}


def shown(name: str, item: dict[str, Any]) -> str | None:
    """The value of a name that means something of an item; None without one."""
    found = item.get(_MEANINGS[name])
    if not found:
        return None
    if isinstance(found, list):
        return ",".join(str(one) for one in found)
    return str(found)


def parsed(word: str, value: bytes) -> Described:
    """What a program says with a value.  Raises `OSError` (EINVAL), with a log line that says what fits."""
    try:
        text = value.rstrip(b"\0").decode("utf-8")
    except UnicodeDecodeError:
        log.warning("a %s must be UTF-8 text", word)
        raise errno_map.oserror(errno.EINVAL, word) from None
    if word == DESCRIPTION:
        if len(text) > MAX_DESCRIPTION:
            log.warning("a description has at most %d characters", MAX_DESCRIPTION)
            raise errno_map.oserror(errno.EINVAL, word)
        return Described(description=text)
    found = [one.strip() for one in text.replace("\n", ",").split(",")]
    tags = list(dict.fromkeys(one for one in found if one))
    if len(tags) > MAX_TAGS:
        log.warning("an item has at most %d tags", MAX_TAGS)
        raise errno_map.oserror(errno.EINVAL, word)
    return Described(tags=tags)


def nothing(word: str) -> Described:
    """What taking an attribute away says."""
    return Described(description="") if word == DESCRIPTION else Described(tags=[])


def record(conn: Connection, ino: Ino, wish: Described, *, due_ns: int) -> None:
    """This is to be said of the item."""
    item_details.describe(conn, ino, wish)
    names = (XDG_COMMENT,) if wish.description is not None else (XDG_TAGS,)
    for name in names:
        xattr_rows.remove(conn, ino, name)
    ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)


def wish(conn: Connection, ino: Ino, place: str, value: str, *, due_ns: int) -> None:
    """A value of metadata is to be on an item that the service does not have yet."""
    item_details.request_value(conn, ino, place, value)
    ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)


def queue_local(conn: Connection, ino: Ino, *, due_ns: int) -> None:
    """A file that was local goes to the service: what programs said of it goes along, as far as it fits."""
    node = tree.get(conn, ino)
    if item_details.described_at(conn, ino) != Described():
        ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)
    for name in (XDG_COMMENT, XDG_TAGS):
        value, word = user_xattrs.at(conn, ino, name), meaning(node, name)
        if value is None or word is None:
            continue
        try:
            wish = parsed(word, value)
        except OSError:
            continue  # it stays here, as it was
        record(conn, ino, wish, due_ns=due_ns)
