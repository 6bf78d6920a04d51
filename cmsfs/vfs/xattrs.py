"""Extended attributes: what the drive tells of a node beyond `stat`, under `user.cms.`.

They answer when asked by name and are not listed: a copying program that finds them in a list tries to
set them on the copy and fails.
"""

import errno
from collections.abc import Callable

from cmsfs.journal import queue
from cmsfs.replica import pins
from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database
from cmsfs.vfs import oserrors

PREFIX = "user.cms."

# The one that can be set: 1 keeps the item here, and all that is below it.
PINNED = f"{PREFIX}pinned"

_SIMPLE: dict[str, Callable[[Node], str | None]] = {
    "id": lambda node: node.remote_id,
    "type": lambda node: node.kind.value,
    "etag": lambda node: node.etag,
    "sha1": lambda node: node.sha1 if node.draft is None else None,
    "version": lambda node: node.version,
}


def value(db: Database, node: Node, name: str) -> bytes:
    """The value of an attribute; ENODATA if the node has none of that name."""
    key = name.removeprefix(PREFIX)
    if key == "sync":
        return sync_state(db, node).encode()
    if name == PINNED:
        return b"1" if pins.holder(db, node.ino) is not None else b"0"
    answer = _SIMPLE[key](node) if name.startswith(PREFIX) and key in _SIMPLE else None
    if answer is None:
        raise oserrors.oserror(errno.ENODATA, name)
    return answer.encode()


def truth(value: bytes) -> bool:
    """What a program means with the value of a switch.  Raises `OSError` (EINVAL)."""
    if value.strip(b"\0\n ") not in (b"0", b"1"):
        raise oserrors.oserror(errno.EINVAL, "only 0 and 1 can be set")
    return b"1" in value


def sync_state(db: Database, node: Node) -> str:
    """`synced`, `waiting`, `uploading`, or `held: ` and the reason."""
    states = queue.states(db, node.ino)
    for op in states:
        if op.state == "held":
            return f"held: {op.error}"
    if any(op.state == "running" for op in states):
        return "uploading"
    return "waiting" if states or node.draft is not None else "synced"
