"""Extended attributes: what the drive tells of a node beyond `stat`, under `user.cms.`, and programs' own.

The drive's answer when asked by name and are not listed: a copying program that finds them in a list tries
to set them on the copy and fails.  Programs' own (where a download came from, tags) are kept on this machine,
since the service has no place for them; they stay with the file over renames and restarts.
"""

import errno
from collections.abc import Callable
from sqlite3 import Connection

from cmsfs.journal import queue
from cmsfs.replica import pins
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database
from cmsfs.vfs import oserrors

PREFIX = "user.cms."

# The one that can be set: 1 keeps the item here, and all that is below it.
PINNED = f"{PREFIX}pinned"

# All attributes of one node together: what the kernel can list.  Tags and addresses are a few hundred bytes.
MAX_BYTES = 64 * 1024

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
    if name == f"{PREFIX}sync":
        return sync_state(db, node).encode()
    if name == PINNED:
        return b"1" if pins.holder(db, node.ino) is not None else b"0"
    if not name.startswith(PREFIX):
        row = db.row("SELECT value FROM xattr WHERE ino = ? AND name = ?", node.ino, name)
        if row is None:
            raise oserrors.oserror(errno.ENODATA, name)
        return bytes(row["value"])
    answer = _SIMPLE[key](node) if key in _SIMPLE else None
    if answer is None:
        raise oserrors.oserror(errno.ENODATA, name)
    return answer.encode()


def truth(value: bytes) -> bool:
    """What a program means with the value of a switch.  Raises `OSError` (EINVAL)."""
    if value.strip(b"\0\n ") not in (b"0", b"1"):
        raise oserrors.oserror(errno.EINVAL, "only 0 and 1 can be set")
    return b"1" in value


def names(db: Database, ino: Ino) -> list[str]:
    """The names of the programs' own attributes."""
    return [row["name"] for row in db.rows("SELECT name FROM xattr WHERE ino = ? ORDER BY name", ino)]


def check(name: str, value: bytes = b"") -> None:
    """Raise the `OSError` for an attribute that cannot be set."""
    if name.startswith(PREFIX):
        raise oserrors.oserror(errno.ENOTSUP, name)
    if len(value) > MAX_BYTES:
        raise oserrors.oserror(errno.E2BIG, name)


def store(conn: Connection, ino: Ino, name: str, value: bytes) -> None:
    """Set an attribute.  Raises `OSError` (ENOSPC) when the node has too many."""
    conn.execute("INSERT OR REPLACE INTO xattr(ino, name, value) VALUES (?, ?, ?)", (ino, name, value))
    row = conn.execute("SELECT sum(length(name) + length(value)) FROM xattr WHERE ino = ?", (ino,)).fetchone()
    if row[0] > MAX_BYTES:
        raise oserrors.oserror(errno.ENOSPC, name)


def remove(conn: Connection, ino: Ino, name: str) -> None:
    """Remove an attribute.  Raises `OSError` (ENODATA) if there is none of that name."""
    if not conn.execute("DELETE FROM xattr WHERE ino = ? AND name = ?", (ino, name)).rowcount:
        raise oserrors.oserror(errno.ENODATA, name)


def sync_state(db: Database, node: Node) -> str:
    """`synced`, `waiting`, `uploading`, `held: ` and the reason, or `local`: it stays on this machine."""
    if node.local:
        return "local"
    states = queue.states(db, node.ino)
    for op in states:
        if op.state == "held":
            return f"held: {op.error}"
    if any(op.state == "running" for op in states):
        return "uploading"
    return "waiting" if states or node.draft is not None else "synced"
