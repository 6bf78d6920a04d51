"""Sync status and number of cached bytes of a node as extended attributes."""

import errno

from cmsfs.cache import bitmap
from cmsfs.cache.blocks import BlockCache
from cmsfs.journal import queue
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map


def sync(db: Database, node: Node) -> str:
    """Return `synced`, `waiting`, `uploading`, `held: ` with the reason, or `local` (never uploaded)."""
    if node.local:
        return "local"
    states = queue.states(db, node.ino)
    for op in states:
        if op.state == "held":
            return f"held: {op.error}"
    if any(op.state == "running" for op in states):
        return "uploading"
    return "waiting" if states or node.draft is not None else "synced"


def cached(blocks: BlockCache, node: Node) -> int | None:
    """Return how many bytes of a file are cached on the local disk; None for other nodes."""
    if node.kind is not NodeKind.FILE:
        return None
    if node.sha1 is None or node.draft is not None or not node.size:
        return node.size
    runs = blocks.missing(node.sha1, node.size, 0, bitmap.blocks(node.size) - 1)
    return node.size - sum(bitmap.run_bytes(node.size, *run) for run in runs)


def parse_bool(value: bytes) -> bool:
    """Parse the value of a boolean attribute, 0 or 1.  Raises `OSError` (EINVAL)."""
    if value.strip(b"\0\n ") not in (b"0", b"1"):
        raise errno_map.oserror(errno.EINVAL, "the value must be 0 or 1")
    return b"1" in value
