"""Uploads: the file exists at the service and has our bytes.

A draft is sealed first, so that what is sent has a SHA-1 before the first byte goes.  The version that
ours started from goes along as `If-Match`; what the service says to that decides between a new version,
a new file and a conflict copy.

Rule: an upload may be sent twice.  The second time meets the first one by its SHA-1 and takes it over.
"""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.cache.blocks import BLOCK
from cmsfs.client import multipart
from cmsfs.journal import ops, queue, sealing
from cmsfs.models import base, items, uploads
from cmsfs.replica import cursor, naming, remote, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import Content, Node, Remote, remote_from_item
from daemon.push import answers, conflicts
from daemon.push.kit import Kit, again

log = logging.getLogger(__name__)

# How often a version that turns out to differ in name or place only is taken as the one to replace.
REBASES = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(mtime_ns: int) -> datetime:
    """A time of a file, to the microsecond; one beyond the calendar is its nearest end."""
    try:
        return _EPOCH + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if mtime_ns > 0 else datetime.min.replace(tzinfo=UTC)


async def upload(kit: Kit, task: queue.Task) -> None:
    """Carry out an UPLOAD."""
    if task.node.draft is not None and not await _seal(kit, task, task.node.draft):
        return
    node = tree.find(kit.db, task.op.ino)
    if node is None or node.parent is None or node.draft is not None or node.sha1 is None:
        # Deleted or written again since: what was asked for meanwhile is another run of this operation.
        await _look_again(kit, task)
        return
    if node.sha1 == node.base_sha1 and node.remote_id is not None:
        await _finish_unchanged(kit, task, node)
        return
    kit.blocks.open(node.sha1, node.size)
    try:
        path = await _bytes(kit, node.sha1, node.size)
        if node.remote_id is None:
            await _send_new(kit, task, node, path)
        else:
            await _send_version(kit, task, node, path)
    finally:
        kit.sent.pop(task.op.seq, None)
        kit.blocks.close(node.sha1)


async def _bytes(kit: Kit, sha1: str, size: int) -> Path:
    """The file with the content.

    It is here unless the file came from the service and took over the identity of another; then the
    service still has it under the old one.
    """
    path = await kit.blocks.complete_path(sha1)
    if path is None and (where := tree.find_bytes(kit.db, sha1)) is not None:
        await kit.hydrate.blocks(Content(sha1, size, *where), 0, (size - 1) // BLOCK)
        path = await kit.blocks.complete_path(sha1)
    if path is None:
        raise errors.MissingBlocks(sha1, 0, 0)
    return path


async def _seal(kit: Kit, task: queue.Task, draft_id: int) -> bool:
    draft = kit.drafts.find(draft_id)
    if draft is not None and await kit.sealer.seal(draft) is None:
        due = ops.now_ns() + int(kit.settle_seconds * 10**9)
        await kit.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=due))
        return False
    return True


async def _look_again(kit: Kit, task: queue.Task) -> None:
    def txn(conn: Connection) -> None:
        node = tree.get(conn, task.op.ino)
        if node.parent is not None and node.draft is not None:
            queue.give_back(conn, task.op, not_before_ns=ops.now_ns())
        else:
            queue.finish(conn, task.op)

    await kit.db.write(txn)


async def _finish_unchanged(kit: Kit, task: queue.Task, node: Node) -> None:
    """Written, but to the bytes that the service has: at most the time is news."""

    def txn(conn: Connection) -> bool:
        row = conn.execute("SELECT item FROM node WHERE ino = ?", (node.ino,)).fetchone()
        item = items.File.model_validate_json(row["item"]) if row["item"] else None
        done = queue.finish(conn, task.op)
        if done and item is not None and not remote.same_time(node.mtime_ns, remote_from_item(item).mtime_ns):
            ops.record_touch(conn, node.ino, due_ns=ops.now_ns())
        return sealing.release_content(conn, node.sha1) if node.sha1 is not None else False

    await _settle(kit, node.sha1, await kit.db.write(txn))


async def _send_new(kit: Kit, task: queue.Task, node: Node, path: Path) -> None:
    assert task.parent is not None
    assert task.parent.remote_id is not None
    assert node.sha1 is not None
    name = naming.remote_name(node)
    attributes = uploads.Attributes(
        name=name,
        parent=base.Reference(id=task.parent.remote_id),
        content_modified_at=moment(node.mtime_ns),
    )
    # What the parent was at the claim, and the name now: both may change on the way, and a move follows.
    with kit.incoming.making(task.parent.remote_id, name):
        try:
            with kit.health.request("upload"):
                answer = await kit.client.uploads.new_file(
                    attributes, _source(path, node), sha1=node.sha1, progress=_progress(kit, task)
                )
        except errors.Conflict as error:
            await _name_in_use(kit, task, node, error)
        except errors.NotFound as error:
            await conflicts.missing(kit, task, error)
        except (errors.Offline, errors.RemoteTimeout, errors.ServerError):
            kit.unheard.setdefault(node.ino, set()).add(node.sha1)
            raise
        else:
            await _done(kit, task, node, answer)


def _source(path: Path, node: Node) -> multipart.Source:
    return multipart.FileSource(path) if node.size else multipart.BytesSource(b"")


def _progress(kit: Kit, task: queue.Task) -> multipart.Progress:
    def note(sent: int) -> None:
        kit.sent[task.op.seq] = sent

    return note


async def _name_in_use(kit: Kit, task: queue.Task, node: Node, error: errors.Conflict) -> None:
    theirs = await conflicts.holder(kit, error)
    if (
        isinstance(theirs, items.File)
        and _is_ours(kit, node, theirs)
        and conflicts.may_be_ours(kit.db, node.ino, theirs)
    ):
        log.info("a file of ours was at the service already; it is taken over")
        await _done(kit, task, node, theirs, found=True)
        return
    await conflicts.keep_both(kit, task, theirs)


def _is_ours(kit: Kit, node: Node, theirs: items.File) -> bool:
    return theirs.sha1 == node.sha1 or theirs.sha1 in kit.unheard.get(node.ino, ())


async def _send_version(kit: Kit, task: queue.Task, node: Node, path: Path) -> None:
    """A new version of the item that the node stands for."""
    assert node.remote_id is not None
    assert node.sha1 is not None
    etag = node.etag
    for _ in range(REBASES):
        try:
            with kit.health.request("upload"):
                answer = await kit.client.uploads.new_version(
                    node.remote_id,
                    _source(path, node),
                    sha1=node.sha1,
                    etag=etag,
                    content_modified_at=moment(node.mtime_ns),
                    progress=_progress(kit, task),
                )
        except errors.NotFound as error:
            await conflicts.missing(kit, task, error)
            return
        except errors.PreconditionFailed:
            theirs = await _theirs(kit, task, node)
            if theirs is None:
                return
            if theirs.sha1 == node.sha1:
                await _done(kit, task, node, theirs, found=True)
                return
            if theirs.sha1 != node.base_sha1:
                await conflicts.keep_both(kit, task, theirs, anew=True)
                return
            # Renamed, moved or described there; the bytes are those that ours started from.
            etag = theirs.etag
        else:
            await _done(kit, task, node, answer)
            return
    await kit.db.write(lambda conn: again(conn, task.op, "The file is being changed at the service."))


async def _theirs(kit: Kit, task: queue.Task, node: Node) -> items.File | None:
    """The file as the service has it now; None if it is gone, which then has been followed."""
    try:
        found = await kit.get(node.kind, node.remote_id or "")
    except errors.NotFound as error:
        await conflicts.missing(kit, task, error)
        return None
    return found if isinstance(found, items.File) else None


async def _done(kit: Kit, task: queue.Task, node: Node, answer: items.File, *, found: bool = False) -> None:
    """The service has these bytes of the node: it took them now, or they were `found` there."""
    kit.unheard.pop(node.ino, None)
    theirs = remote_from_item(answer)

    def txn(conn: Connection) -> tuple[list[Change], bool]:
        answers.take_in(conn, node.ino, theirs)
        done = queue.finish(conn, task.op)
        now = tree.get(conn, node.ino)
        if done and now.parent is not None:
            if now.draft is None and now.sha1 != now.base_sha1:
                # What was found has the bytes of an earlier attempt, or stands for another node.
                ops.record(conn, now.ino, ops.OpKind.UPLOAD, due_ns=ops.now_ns())
            elif not _has_time(now, node, theirs, found=found):
                ops.record_touch(conn, now.ino, due_ns=ops.now_ns())
        # It may have been moved there while it was written here: then it is moved here, too.
        changes = remote.apply(conn, [theirs], generation=cursor.generation(conn))
        return changes, theirs.sha1 is not None and sealing.release_content(conn, theirs.sha1)

    changes, released = await kit.db.write(txn)
    kit.incoming.publish(changes)
    await _settle(kit, theirs.sha1, released)


def _has_time(now: Node, sent: Node, theirs: Remote, *, found: bool) -> bool:
    """Whether the service has the node's time: the one that was sent, unless the file was there before."""
    return remote.same_time(now.mtime_ns, theirs.mtime_ns) if found else now.mtime_ns == sent.mtime_ns


async def _settle(kit: Kit, sha1: str | None, released: bool) -> None:
    if released and sha1 is not None:
        await kit.blocks.settle_clean(sha1)
