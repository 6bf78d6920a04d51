"""Concurrent appends on two machines: later appends continue in the conflict copy.

A program that opens its log by name for each line opens the service's version after every conflict.  Its
later appends go to the end of the existing conflict copy, instead of into one more copy per line.

Rule: only data that `O_APPEND` wrote after the end of the service's version is moved; data written at an
offset belongs to its context.

Rule: the copy must be unchanged and not open.  One transaction adds the data to the copy and removes it from
the file.

Copies are remembered for the lifetime of this process: after a restart a new copy is made and continued.
"""

import enum
import hashlib
import logging
import os
import shutil
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs.cache import content_table
from cmsfs.cache.local_contents import LocalFile
from cmsfs.journal import ops, queue, sealing
from cmsfs.models.content import items
from cmsfs.replica import inodes, kv_store, naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import Content, Node, remote_from_item
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock, threads
from daemon.push.context import ConflictCopy, PushContext
from daemon.push.operations import multipart

log = logging.getLogger(__name__)

# Delay and number of retries while the file is being written.
AGAIN_SECONDS = 0.2
TRIES = 3

_PIECE = 1024 * 1024


class _End(enum.Enum):
    JOINED = enum.auto()
    BUSY = enum.auto()  # the file is open, or has newer bytes
    OTHER = enum.auto()  # the copy is not what it was


def note_copy(context: PushContext, node: Node, theirs: items.File) -> None:
    """Remember that the node became a conflict copy of the item: later appends to the item may follow it."""
    copy = tree.find(context.db, node.ino)
    context.appending.pop(node.ino, None)
    if copy is None or copy.parent is None or copy.sha1 is None or naming.CONFLICT_MARK not in copy.name:
        return
    if context.drafts.appended.pop(node.ino, None) is not None and copy.draft is None:
        context.copies[theirs.id] = ConflictCopy(copy.ino, copy.parent, copy.name, copy.sha1)


async def continue_in_copy(
    context: PushContext, task: queue.Task, node: Node, path: Path, theirs: items.File
) -> bool:
    """Append what was appended to `node`, whose contents are in `path`, to its existing conflict copy.

    Returns whether that ended the operation or put it back for a retry; else both files are kept.
    """
    copy, base = context.copies.get(theirs.id), context.drafts.appended.get(node.ino)
    if copy is None or base is None or base.sha1 != node.base_sha1 or base.size > node.size:
        return False
    held = tree.find(context.db, copy.ino)
    if held is None or not copy.is_as_left(held, node):
        return False
    context.blocks.open(copy.sha1, held.size)
    try:
        end = await _join(context, task, node, path, theirs, copy, held, base)
    except OSError as error:
        log.warning("appended data cannot be moved to the conflict copy: %s", error)
        return False
    finally:
        context.blocks.close(copy.sha1)
    if end is _End.BUSY and context.appending[node.ino] < TRIES:
        context.appending[node.ino] += 1
        due = clock.time_ns() + int(AGAIN_SECONDS * 10**9)
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=due))
        return True
    return end is _End.JOINED


async def _join(
    context: PushContext,
    task: queue.Task,
    node: Node,
    path: Path,
    theirs: items.File,
    copy: ConflictCopy,
    held: Node,
    base: Content,
) -> _End:
    before = await context.blocks.complete_path(copy.sha1)
    if before is None:
        return _End.OTHER
    # A start deletes leftovers with such a name.
    joined = context.drafts.root / f"{task.op.seq}-appended.sealed"
    try:
        sha1 = await threads.run_sync(_write_joined, before, path, base, joined)
        if sha1 is None:
            return _End.OTHER
        size = held.size + node.size - base.size

        def txn(conn: Connection) -> tuple[_End, list[Change]]:
            if (end := _look(conn, node, copy)) is not _End.JOINED:
                return end, []
            content_table.record_dirty(conn, sha1, size)
            return end, _decide(conn, task, node, theirs, copy, Content(sha1, size, None, None), base.size)

        await context.db.write(lambda conn: content_table.expect(conn, sha1, size))
        # From here to the commit only the local disk is waited for.
        with trio.CancelScope(shield=True):
            end, changes = await context.blocks.adopt_dirty([LocalFile(sha1, size, joined)], txn)
            if end is not _End.JOINED:
                context.blocks.disown_dirty(sha1)
    finally:
        joined.unlink(missing_ok=True)
    if end is _End.JOINED:
        context.appending.pop(node.ino, None)
        context.copies[theirs.id] = ConflictCopy(copy.ino, copy.parent, copy.name, sha1)
        context.remote_updates.publish(changes)
        log.info("data appended to a file that others also append to was moved to its conflict copy")
        assert node.sha1 is not None
        await context.blocks.drop_clean(node.sha1)
    return end


def _look(conn: Connection, node: Node, copy: ConflictCopy) -> _End:
    """Whether both are unchanged since they were examined; an open waits for the end of the transaction."""
    ours, theirs = tree.find_at(conn, node.ino), tree.find_at(conn, copy.ino)
    if ours is None or theirs is None or not copy.is_as_left(theirs, ours):
        return _End.OTHER
    if inodes.is_open(conn, theirs.ino):
        return _End.OTHER
    same = (ours.sha1, ours.base_sha1, ours.remote_id) == (node.sha1, node.base_sha1, node.remote_id)
    if not same or ours.draft is not None or inodes.is_open(conn, ours.ino):
        return _End.BUSY
    return _End.JOINED


def _decide(
    conn: Connection,
    task: queue.Task,
    node: Node,
    theirs: items.File,
    copy: ConflictCopy,
    joined: Content,
    base_size: int,
) -> list[Change]:
    """Make the copy hold the appended data, to be uploaded, and the file the service's version."""
    node_rows.set_content(conn, copy.ino, sha1=joined.sha1, size=joined.size)
    node_rows.set_modified(conn, copy.ino, node.mtime_ns)
    ops.record(conn, copy.ino, ops.OpKind.UPLOAD, due_ns=clock.time_ns())
    node_rows.show_base(conn, node.ino, size=base_size)
    multipart.forget(conn, node.ino)
    queue.cancel(conn, task.op)
    changes = [Change(ChangeKind.CONTENT, copy.ino), Change(ChangeKind.CONTENT, node.ino)]
    changes += apply_remote.apply(conn, [remote_from_item(theirs)], generation=kv_store.generation(conn))
    assert node.sha1 is not None
    # Old contents of a copy that was not uploaded yet are removed by `daemon.maintenance`.
    sealing.drop_unneeded(conn, [node.sha1])
    return changes


def _write_joined(copy: Path, ours: Path, base: Content, joined: Path) -> str | None:
    """Write the copy plus what `ours` has after `base`; return its SHA-1, or None if `ours` does not start
    with `base`."""
    digest = hashlib.sha1(usedforsecurity=False)
    with ours.open("rb") as tail:
        left = base.size
        while left and (data := tail.read(min(left, _PIECE))):
            digest.update(data)
            left -= len(data)
        if left or digest.hexdigest() != base.sha1:
            return None
        digest = hashlib.sha1(usedforsecurity=False)
        with copy.open("rb") as head, joined.open("wb") as target:
            shutil.copyfileobj(head, target, _PIECE)
            shutil.copyfileobj(tail, target, _PIECE)
            target.flush()
            os.fsync(target.fileno())
    with joined.open("rb") as whole:
        while data := whole.read(_PIECE):
            digest.update(data)
    return digest.hexdigest()
