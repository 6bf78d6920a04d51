"""Uploads file contents.

A draft is sealed first, so that its SHA-1 is known before the first byte is sent.  The base version is sent
as `If-Match`; the service's answer decides between a new version, a new file and a conflict copy.

Rule: an upload may be sent twice.  The second one finds the first by its SHA-1 and adopts it.
"""

import functools
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.client.content.uploads import BytesSource, FileSource, Progress, Source
from cmsfs.config.abilities import Ability, not_offered
from cmsfs.crashpoints import Point
from cmsfs.journal import ops, queue, sealing
from cmsfs.journal.draft import Draft
from cmsfs.journal.sealing import Sealed
from cmsfs.models import base
from cmsfs.models.content import items, uploads
from cmsfs.replica import kv_store, naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import apply_remote, local_work
from cmsfs.replica.nodes import Base, Content, Ino, Node, NodeKind, remote_from_item, remote_mtime_ns
from cmsfs.replica.rows import copy_sources, in_flight, op_rows
from cmsfs.replica.rows.in_flight import SentRequest
from cmsfs.runtime import clock
from daemon.push import inflight_recovery
from daemon.push.context import REBASES, PushContext, reconsider
from daemon.push.operations import lost_base, refused_uploads, server_copy, web_links
from daemon.push.operations import multipart as push_multipart
from daemon.push.operations.upload_targets import NewFile, Target

log = logging.getLogger(__name__)

# An upload of outdated contents is cancelled, unless only this much or a tenth of it is left to send.
NEARLY_DONE_BYTES = 1024 * 1024
MAX_SUPERSEDED = 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_timestamp(mtime_ns: int) -> datetime:
    """Convert an mtime to a datetime, truncated to microseconds and clamped to the supported range."""
    try:
        return _EPOCH + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if mtime_ns > 0 else datetime.min.replace(tzinfo=UTC)


async def upload(context: PushContext, task: queue.Task) -> None:
    """Carry out an UPLOAD."""
    node = await _prepare(context, task)
    if node is None:
        return
    if context.guard.is_holding:
        # Its contents, once sealed, completed a mass change.
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=0))
        return
    may_be_link = node.kind is NodeKind.LINK or node.name.endswith(naming.LINK_SUFFIX)
    if may_be_link and await web_links.upload(context, task, node):
        return
    assert node.sha1 is not None
    if node.sha1 == node.base_sha1 and node.remote_id is not None:
        await _finish_unchanged(context, task, node)
        return
    context.blocks.open(node.sha1, node.size)
    try:
        path = context.blocks.checked_file(node.sha1) or await context.blocks.complete_path(node.sha1)
        if node.remote_id is None:
            await _send_new(context, task, node, path)
        else:
            path = path or await lost_base.fetched(context, task, node)
            await _send_version(context, task, node, path)
    except lost_base.BytesRestored:
        pass  # the operation was put back
    except inflight_recovery.Superseded:
        context.superseded[node.ino] += 1
        await push_multipart.give_up(context, node.ino)
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=0))
        log.info("canceling an upload, because the file has newer contents")
    finally:
        context.sent.pop(task.op.seq, None)
        context.blocks.close(node.sha1)


async def _prepare(context: PushContext, task: queue.Task) -> Node | None:
    """Return the node with sealed contents; None if it cannot be sent now, which ends the task."""
    if task.node.draft is not None and not await _seal(context, task, task.node.draft):
        return None
    # An earlier request may have created the item.
    await inflight_recovery.before_create(context, task)
    node = tree.find(context.db, task.op.ino)
    if node is None or node.parent is None or node.draft is not None or node.sha1 is None:
        # Deleted or written since: another run of this operation handles that.
        await _look_again(context, task)
        return None
    return node


async def seal_ahead(context: PushContext, tasks: Sequence[queue.Task]) -> None:
    """Seal the small files of these uploads together, and record that they are about to be sent.

    They share a transaction, a few thread hops and an fsync of the drafts folder.  A file that cannot be
    sealed here is sealed by its own upload, which handles the error.
    """
    drafts: list[Draft] = []
    for task in tasks:
        if task.node.draft is not None and (draft := context.drafts.find(task.node.draft)) is not None:
            drafts.append(draft)
    noted: dict[Ino, SentRequest] = {}
    note = functools.partial(_note, {task.node.ino: task for task in tasks}, noted)
    try:
        sealed = await context.sealer.seal_small(drafts, note)
        if noted:
            await context.db.sync_log()
    except OSError as error:
        log.debug("small files could not be sealed together: %s", error)
        return
    context.noted.update(noted)
    context.sealed.update({small.ino: small for small in sealed})


def _note(
    tasks: Mapping[Ino, queue.Task], noted: dict[Ino, SentRequest], conn: Connection, became: Sequence[Sealed]
) -> None:
    """Record the requests that will probably send these contents."""
    for sealed in became:
        node, parent = tasks[sealed.ino].node, tasks[sealed.ino].parent
        if sealed.sha1 == tree.get(conn, sealed.ino).base_sha1:
            continue
        if node.base is not None:
            sent = SentRequest(node.ino, sealed.sha1, remote_id=node.base.item)
        elif node.remote_id is None and parent is not None and not node.name.endswith(naming.LINK_SUFFIX):
            assert parent.remote_id is not None, "it waits for its folder"
            sent = SentRequest(node.ino, sealed.sha1, folder=parent.remote_id, name=naming.remote_name(node))
        else:
            continue
        if in_flight.note(conn, sent):
            noted[node.ino] = sent


async def _seal(context: PushContext, task: queue.Task, draft_id: int) -> bool:
    draft = context.drafts.find(draft_id)
    if draft is None:
        return True
    noted: dict[Ino, SentRequest] = {}
    try:
        sealed = await context.sealer.seal(
            draft,
            while_open=functools.partial(context.goes_as_it_is, task.node),
            note=functools.partial(_note, {task.node.ino: task}, noted),
        )
    except OSError as error:
        if lost_base.is_lost(context, draft, error):
            if await lost_base.recover(context, task, context.drafts.base(draft)):
                return False
            raise errors.LostBase(f"the base of draft {draft.id}: {error}") from error
        raise
    if sealed is None:
        due = clock.time_ns() + int(context.settle_seconds * 10**9)
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=due))
        return False
    if noted:
        await context.db.sync_log()
    context.noted.update(noted)
    context.sealed[task.node.ino] = sealed
    return True


async def _look_again(context: PushContext, task: queue.Task) -> None:
    def txn(conn: Connection) -> None:
        node = tree.get(conn, task.op.ino)
        if node.parent is not None and node.draft is not None:
            queue.give_back(conn, task.op, not_before_ns=clock.time_ns())
        else:
            queue.finish(conn, task.op)

    await context.db.write(txn)


async def _finish_unchanged(context: PushContext, task: queue.Task, node: Node) -> None:
    """Finish a file whose contents equal the service's, if it is still there; at most its time changed."""
    sha1 = node.sha1
    assert sha1 is not None

    def txn(conn: Connection) -> bool:
        row = conn.execute("SELECT item, remote_id FROM node WHERE ino = ?", (node.ino,)).fetchone()
        if row is None or row["remote_id"] != node.remote_id:
            queue.give_back(conn, task.op, not_before_ns=0)
            return False
        done, known = queue.finish(conn, task.op), row["item"]
        if done and known and not apply_remote.same_time(node.mtime_ns, remote_mtime_ns(known)):
            ops.record_touch(conn, node.ino, due_ns=clock.time_ns())
        return sealing.release_content(conn, sha1)

    if await context.db.write(txn):
        context.released.add(sha1)


async def _send_new(context: PushContext, task: queue.Task, node: Node, path: Path | None) -> None:
    assert task.parent is not None
    assert task.parent.remote_id is not None
    assert node.sha1 is not None
    # The parent at the claim and the current name: both may change during the upload, and a move follows.
    target = NewFile(task.parent.remote_id, naming.remote_name(node))
    sent = SentRequest(node.ino, node.sha1, folder=target.folder_id, name=target.name)
    with context.remote_updates.making(target.folder_id, target.name):
        try:
            async with inflight_recovery.recorded(context, sent):
                copied = await server_copy.copy(context, node, target)
                # A server-side copy needs no local contents.
                answer = copied or await _send(
                    context, task, node, path or await lost_base.fetched(context, task, node), target
                )
        except errors.Conflict as error:
            ours = await refused_uploads.name_in_use(context, task, node, error)
            if ours is not None:
                await _done(context, task, node, ours, found=True)
        except errors.NotFound as error:
            await refused_uploads.missing(context, task, node, error)
        else:
            # A server-side copy has the time of its source.
            await _done(context, task, node, answer, found=copied is not None)


async def _send(context: PushContext, task: queue.Task, node: Node, path: Path, target: Target) -> items.File:
    """Upload the contents, in one request or in parts; return the file as the service has it."""
    assert node.sha1 is not None
    time, progress = to_timestamp(node.mtime_ns), _progress(context, task, node)
    if 0 < context.profile.parts_from_bytes <= node.size:
        source = FileSource(path)
        return await push_multipart.send(
            context=context,
            ino=node.ino,
            target=target,
            source=source,
            sha1=node.sha1,
            content_modified_at=time,
            progress=progress,
        )
    small = context.sealed.get(node.ino)
    if small is not None and small.data is not None and small.sha1 == node.sha1:
        whole: Source = BytesSource(small.data)
    else:
        whole = FileSource(path) if node.size else BytesSource(b"")
    with context.health.request("upload"):
        if isinstance(target, Base):
            return await context.client.uploads.new_version(
                target.item,
                whole,
                sha1=node.sha1,
                etag=target.etag,
                content_modified_at=time,
                progress=progress,
            )
        attributes = uploads.UploadAttributes(
            name=target.name, parent=base.Reference(id=target.folder_id), content_modified_at=time
        )
        return await context.client.uploads.new_file(attributes, whole, sha1=node.sha1, progress=progress)


def _progress(context: PushContext, task: queue.Task, node: Node) -> Progress:
    nearly_done = node.size - max(NEARLY_DONE_BYTES, node.size // 10)

    def note(sent: int) -> None:
        context.sent[task.op.seq] = sent
        if sent < nearly_done and _is_superseded(context, node):
            raise inflight_recovery.Superseded

    return note


def _is_superseded(context: PushContext, node: Node) -> bool:
    # A file that is written more often than it can be sent must be uploaded eventually.
    if context.superseded[node.ino] >= MAX_SUPERSEDED:
        return False
    now = tree.find(context.db, node.ino)
    return now is None or now.parent is None or now.draft is not None or now.sha1 != node.sha1


async def _send_version(context: PushContext, task: queue.Task, node: Node, path: Path) -> None:
    """Upload a new version of the item that belongs to the node."""
    assert node.sha1 is not None
    if context.client.offers.is_lacking(Ability.VERSIONS):
        raise not_offered(Ability.VERSIONS)
    base = node.base
    for _ in range(REBASES):
        try:
            if base is None:
                # Its base version is unknown: handle it as if the service had refused.
                raise errors.PreconditionFailed(412, "precondition_failed", "Its version here is not known.")
            sent = SentRequest(node.ino, node.sha1, remote_id=base.item)
            async with inflight_recovery.recorded(context, sent):
                answer = await _send(context, task, node, path, base)
        except errors.NotFound as error:
            await refused_uploads.missing(context, task, node, error)
            return
        except errors.PreconditionFailed:
            match await refused_uploads.other_version(context, task, node, path):
                case Base() as now:
                    base = now
                case items.File() as theirs:
                    await _done(context, task, node, theirs, found=True)
                    return
                case None:
                    return
        else:
            await _done(context, task, node, answer)
            return
    await context.db.write(
        lambda conn: reconsider(context, conn, task.op, "The file is being changed at the service.")
    )


def _is_clean(node: Node) -> bool:
    return node.parent is not None and node.draft is None and node.sha1 == node.base_sha1


def _was_handed_on(conn: Connection, task: queue.Task, node: Node) -> bool:
    """Whether the node has given its item to another during the upload, as a backup does to the file that is
    saved.  One whose item was only deleted has the same upload as before."""
    now = tree.get(conn, node.ino)
    is_anew = bool(now.local) or not queue.is_as_claimed(conn, task.op)
    return is_anew and node.remote_id is not None and now.remote_id != node.remote_id


async def _done(
    context: PushContext, task: queue.Task, node: Node, answer: items.File, *, found: bool = False
) -> None:
    """Record that the service has these contents: uploaded now, or `found` there."""
    crashpoints.reached(Point.UPLOAD_SENT)
    context.superseded.pop(node.ino, None)
    theirs = remote_from_item(answer)
    sha1 = theirs.sha1
    assert sha1 is not None

    def txn(conn: Connection) -> tuple[list[Change], bool]:
        if 0 < context.profile.parts_from_bytes <= node.size:
            push_multipart.forget(conn, node.ino)
        changes: list[Change] = []
        other = tree.remote_at(conn, theirs.kind, theirs.id)
        is_gone = other is None and _was_handed_on(conn, task, node)
        if is_gone:
            holder = tree.get(conn, node.ino)
        elif other is not None and other.ino != node.ino and _is_clean(other):
            # The item went to the trash and came back meanwhile, and ours has become a new one.
            changes = apply_remote.apply(conn, [theirs], generation=kv_store.generation(conn))
            holder = tree.get(conn, other.ino)
        else:
            holder = apply_remote.adopt(conn, node.ino, theirs, sent=node)
        # An upload of another file that took its place stays recorded.
        in_flight.resolve(conn, node.ino, theirs.id, of_others=holder.ino == node.ino)
        behind = holder.draft is None and holder.sha1 != holder.base_sha1
        if holder.ino != node.ino and holder.parent is not None and behind:
            ops.record(conn, holder.ino, ops.OpKind.UPLOAD, due_ns=clock.time_ns())
        done = queue.finish(conn, task.op)
        copy_sources.forget(conn, node.ino)
        now = holder if holder.ino == node.ino else tree.get(conn, node.ino)
        # The time that was sent; a file that was found has its own.
        there_ns = theirs.mtime_ns if found else node.mtime_ns
        has_time = now.mtime_ns == there_ns or (found and apply_remote.same_time(now.mtime_ns, there_ns))
        if done and now.parent is not None:
            if now.draft is None and now.sha1 != now.base_sha1:
                # The file found has the contents of an earlier attempt, or belongs to another node.
                ops.record(conn, now.ino, ops.OpKind.UPLOAD, due_ns=clock.time_ns())
            elif not has_time:
                ops.record_touch(conn, now.ino, due_ns=clock.time_ns())
            if node.remote_id is None and now.remote_id == theirs.id and not found:
                # A multipart upload creates the file under the name it had when the session started.
                ops.record_move(conn, now, due_ns=clock.time_ns())
        # It may have been moved remotely during the upload: then it moves here, too.
        if is_gone:
            pass  # nothing here has the item
        elif holder.parent is None:
            # Deleted here during the upload; as a file that stays on this machine, with no request for that.
            op_rows.record_once(conn, holder.ino, ops.OpKind.TRASH)
        elif (tree.get(conn, holder.parent).remote_id, holder.name) == (theirs.parent_id, theirs.name):
            pass
        elif context.remote_updates.is_moved_for_another((theirs.kind, theirs.id), holder.ino):
            # By ourselves, before the holder had it.
            ops.record_move(conn, tree.get(conn, holder.ino), due_ns=clock.time_ns())
        elif not local_work.has_later(conn, theirs):
            changes += apply_remote.apply(conn, [theirs], generation=kv_store.generation(conn))
        return changes, sealing.release_content(conn, sha1)

    changes, released = await context.db.write_short(txn)
    crashpoints.reached(Point.UPLOAD_ADOPTED)
    if node.ino in context.drafts.appended and sha1 == node.sha1:
        # Later appends start from these contents.
        context.drafts.appended[node.ino] = Content(sha1, node.size, None, None)
    if changes:
        context.remote_updates.publish(changes)
    await context.remote_updates.follow_deletion(answer)
    if released:
        context.released.add(sha1)
