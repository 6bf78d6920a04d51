"""Extended attributes: what the drive tells of a node beyond `stat`, under `user.cms.`.

They answer when asked by name and are not listed: a copying program that finds them in a list tries to
set them on the copy and fails.
"""

import errno
from collections.abc import Callable

from cmsfs.journal import queue
from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database
from cmsfs.vfs import oserrors

PREFIX = "user.cms."

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
    answer = _SIMPLE[key](node) if name.startswith(PREFIX) and key in _SIMPLE else None
    if answer is None:
        raise oserrors.oserror(errno.ENODATA, name)
    return answer.encode()


def sync_state(db: Database, node: Node) -> str:
    """`synced`, `waiting`, `uploading`, or `held: ` and the reason."""
    states = queue.states(db, node.ino)
    for op in states:
        if op.state == "held":
            return f"held: {op.error}"
    if any(op.state == "running" for op in states):
        return "uploading"
    return "waiting" if states or node.draft is not None else "synced"
