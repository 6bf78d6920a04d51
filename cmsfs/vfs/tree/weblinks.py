"""Writes to web links: the text becomes a draft, which the push parses as a `.url` file.

Rule: a draft has the link's previous text from its creation on, even after a crash: a partially written link
must never be taken for an emptied one.
"""

import errno
import os
from sqlite3 import Connection

from cmsfs.journal import draft_rows, ops
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.extents import Extents
from cmsfs.replica import link_texts, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.vfs import errno_map


def is_shown(node: Node) -> bool:
    """Whether the file is a web link without local changes, so that it shows the service's item."""
    return node.kind is NodeKind.LINK and node.draft is None and node.sha1 is None


def begin_draft(conn: Connection, drafts: Drafts, ino: Ino, shown: bytes, text: bytes, *, due_ns: int) -> int:
    """Create a draft of a web link with `text`, inside the caller's transaction; return its id.

    `shown` is the text that the writer has seen.  Raises `OSError`: ESTALE if the link has changed since, so
    that neither change is lost.
    """
    node = tree.get(conn, ino)
    if not is_shown(node):
        raise errno_map.oserror(errno.ESTALE, node.name)
    if shown != link_texts.shown(conn, ino):
        raise errno_map.oserror(errno.ESTALE, node.name)
    draft_id = Drafts.insert(conn, ino, None)
    if text:
        _write(drafts, draft_id, text)
    extents = Extents()
    extents.add(0, len(text))
    draft_rows.set_held(conn, draft_id, extents=extents.to_json(), size=len(text))
    if node.parent is not None:
        ops.record(conn, ino, ops.OpKind.UPLOAD, due_ns=due_ns)
    return draft_id


def _write(drafts: Drafts, draft_id: int, text: bytes) -> None:
    fd = os.open(drafts.path(draft_id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text)
        os.fsync(fd)
    finally:
        os.close(fd)
