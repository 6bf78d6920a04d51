"""Description and tags as extended attributes, under our names and freedesktop's.

Changes are journaled like every change of a file: setting them works at once, offline, and for items that are
not uploaded yet; they are sent as one request after a delay.  Their lengths are validated here, so that the
service does not reject them later.

Rule: on local-only nodes the freedesktop names are ordinary attributes of programs.
"""

import errno
import logging
from sqlite3 import Connection
from typing import Any

from cmsfs.journal import ops
from cmsfs.replica import item_details
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

# Attribute names, and the fields of an item that they map to.
_MEANINGS = {
    f"{item_fields.PREFIX}{DESCRIPTION}": DESCRIPTION,
    f"{item_fields.PREFIX}{TAGS}": TAGS,
    XDG_COMMENT: DESCRIPTION,
    XDG_TAGS: TAGS,
}

# Whether anything of the kind is stored for a node.
_HAS_LOCAL = """
  SELECT EXISTS (SELECT 1 FROM xattr WHERE ino = ?1) OR EXISTS (SELECT 1 FROM described WHERE ino = ?1)
    OR EXISTS (SELECT 1 FROM wished WHERE ino = ?1)
"""

MAX_DESCRIPTION = 256
MAX_TAGS = 100


def meaning(node: Node, name: str) -> str | None:
    """Return the field of a node's item that an attribute maps to; None if it maps to none."""
    word = _MEANINGS.get(name)
    if node.local or node.ino == ROOT or node.kind is NodeKind.SYMLINK:
        return None
    return None if word == TAGS and node.kind is NodeKind.LINK else word


def overlaid(item: dict[str, Any], wish: Described) -> dict[str, Any]:
    """Return an item in its wire format, overlaid with locally set values."""
    given = {DESCRIPTION: wish.description, TAGS: wish.tags}
    return item | {key: value for key, value in given.items() if value is not None}


def shown(name: str, item: dict[str, Any]) -> str | None:
    """Return the value of an attribute that maps to a field; None if the field is empty."""
    found = item.get(_MEANINGS[name])
    if not found:
        return None
    if isinstance(found, list):
        return ",".join(str(one) for one in found)
    return str(found)


def parsed(word: str, value: bytes) -> Described:
    """Parse a value.  Raises `OSError` (EINVAL), with a log line that tells what is valid."""
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
    """Return the change that removes an attribute."""
    return Described(description="") if word == DESCRIPTION else Described(tags=[])


def record(conn: Connection, ino: Ino, wish: Described, *, due_ns: int) -> None:
    """Record a change of description or tags, to be sent to the service."""
    item_details.describe(conn, ino, wish)
    names = (XDG_COMMENT,) if wish.description is not None else (XDG_TAGS,)
    for name in names:
        xattr_rows.remove(conn, ino, name)
    ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)


def wish(conn: Connection, ino: Ino, place: str, value: str, *, due_ns: int) -> None:
    """Record a metadata value for an item that is not uploaded yet."""
    item_details.request_value(conn, ino, place, value)
    ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)


def queue_local(conn: Connection, node: Node, *, due_ns: int) -> None:
    """Queue the description and tags of a file that is no longer local-only, as far as they are valid."""
    ino = node.ino
    if not conn.execute(_HAS_LOCAL, (ino,)).fetchone()[0]:
        return
    if item_details.described_at(conn, ino) != Described():
        ops.record(conn, ino, ops.OpKind.DESCRIBE, due_ns=due_ns)
    for name in (XDG_COMMENT, XDG_TAGS):
        value, word = user_xattrs.at(conn, ino, name), meaning(node, name)
        if value is None or word is None:
            continue
        try:
            wish = parsed(word, value)
        except OSError:
            continue  # it remains a local attribute
        record(conn, ino, wish, due_ns=due_ns)
