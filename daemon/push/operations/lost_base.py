"""Restores an item from the service's trash for a local change that needs its contents.

A file that was changed before all of it was downloaded consists of the change and of contents that only the
service has.  If somebody deletes it there meanwhile, its contents can no longer be downloaded, and the change
could not be uploaded.  A change wins over a deletion (`conflicts`), so the item is restored, and the change
becomes its next version.  So is one whose contents belong to a file with another name by now, as an editor's
backup, and were removed from this disk.  Of one that is gone for good another item may have the contents.

A file that replaced another one, before all of it was downloaded, has the item of that by now: what is
restored only gives its contents, under a name that nothing has, and is deleted again, as the program wanted.

Rule: the node becomes the restored item only if that has the very version which is needed here.
"""

import errno
import logging
from pathlib import Path
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.cache.blocks import BLOCK
from cmsfs.journal import ops, queue
from cmsfs.journal.draft import Draft
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, lineages, local_work
from cmsfs.replica.nodes import Content, Node, NodeKind, remote_from_item
from cmsfs.replica.rows import past_versions
from cmsfs.runtime import clock
from daemon.core import root_check
from daemon.push import conflicts, inflight_recovery
from daemon.push.context import PushContext, reconsider, wait_ns

log = logging.getLogger(__name__)

# Contents that the service has nowhere count as lost after so many attempts: a version may get another
# number, and an item that has them be heard of later.
LOST_ATTEMPTS = 3


class BytesRestored(inflight_recovery.Superseded):
    """The contents to be sent were restored at the service; the operation was put back."""


def is_lost(context: PushContext, draft: Draft, error: OSError) -> bool:
    """Whether downloading a draft's base again is pointless: nobody has it or may deliver it."""
    base = context.drafts.base(draft)
    nowhere = base is not None and base.remote_id is None and error.errno == errno.EIO
    return nowhere or error.errno in (errno.ESTALE, errno.EACCES)


async def fetched(context: PushContext, task: queue.Task, node: Node) -> Path:
    """Download contents that are not cached: they came from the service and took over the identity of another
    item; the service still has them under the old one.

    Raises `BytesRestored` if that had to be restored from the trash first; `Conflict` if the name of a new
    file is in use, perhaps by an earlier upload of it.
    """
    assert node.sha1 is not None
    if (where := past_versions.find(context.db, node.sha1)) is not None:
        content = Content(node.sha1, node.size, *where)
        try:
            await context.hydrator.blocks(content, 0, (node.size - 1) // BLOCK)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            if await restore(context, task, content, is_new=node.remote_id is None):
                raise BytesRestored from error
            if task.op.attempts < LOST_ATTEMPTS:
                raise  # another item may turn out to have them
    path = await context.blocks.complete_path(node.sha1)
    if path is None:
        if node.remote_id is None:
            await _check_place(context, task, node)
        raise errors.MissingBlocks(node.sha1, 0, 0)
    return path


async def _check_place(context: PushContext, task: queue.Task, node: Node) -> None:
    """Raise `Conflict`, as an upload would, if the name of a new file is in use: who has it may have the
    contents, too, and is not shown here before that is settled."""
    folder = task.parent.remote_id if task.parent is not None else None
    holder = await inflight_recovery.holder_at(context, folder or "", naming.remote_name(node))
    if holder is not None:
        there = {"type": holder.type, "id": holder.id}
        raise errors.Conflict(
            409, conflicts.NAME_IN_USE, "The name is in use.", context_info={"conflicts": there}
        )


async def recover(context: PushContext, task: queue.Task, base: Content | None) -> bool:
    """Restore the item that has these contents, or download them from another one that has them, too; return
    whether the upload can go on, as an operation that was put back.  Raises and cancelled: as `restore`."""
    return await restore(context, task, base) or (
        base is not None and await _fetched_elsewhere(context, task, base)
    )


async def _fetched_elsewhere(context: PushContext, task: queue.Task, base: Content) -> bool:
    where = past_versions.find(context.db, base.sha1, besides=base.remote_id)
    if where is None:
        return False
    try:
        await context.hydrator.blocks(Content(base.sha1, base.size, *where), 0, (base.size - 1) // BLOCK)
    except OSError as error:
        log.info("another item that should have the contents of a lost one does not: %s", error)
        return False
    await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=clock.time_ns()))
    return True


async def restore(
    context: PushContext, task: queue.Task, base: Content | None, *, is_new: bool = False
) -> bool:
    """Restore the item that has these contents; return whether the upload can go on, as an operation that was
    put back.  Cancelled: it may be restored, and arrives as a remote change.

    Raises `RemoteError` if the service does not answer, or the drive's folder is away; a refusal means no,
    except that for a file that `is_new` the name may be in use (`Conflict`), as for any upload of it.
    """
    await root_check.check(context.db, context.client, context.health)
    node = tree.find(context.db, task.op.ino)
    if base is None or base.remote_id is None or node is None or not context.profile.trash:
        return False
    holder = tree.find_remote(context.db, NodeKind.FILE, base.remote_id)
    if holder is not None and holder.parent is not None and holder.ino != node.ino:
        # Another file here is that item: it has them, unless there is news; or its own upload restores it.
        if holder.base_sha1 != base.sha1 or task.op.attempts >= LOST_ATTEMPTS:
            return False
        due = clock.time_ns() + wait_ns(task.op.attempts)
        await context.db.write(
            lambda conn: queue.retry(conn, task.op, not_before_ns=due, error="Another item has its contents.")
        )
        return True
    folder, name = task.parent, naming.remote_name(node)
    folder_id = folder.remote_id if folder is not None else None
    if _has_another(node, base.remote_id):
        name = next(naming.additions(name, base.remote_id))
    with context.remote_updates.making(folder_id or "", name):
        try:
            with context.health.request("restore"):
                answer = await context.client.items.restore(
                    NodeKind.FILE, base.remote_id, name=name, parent_id=folder_id
                )
        except (errors.NotFound, errors.Forbidden, errors.Conflict) as error:
            if task.op.attempts < LOST_ATTEMPTS and await context.find(NodeKind.FILE, base.remote_id):
                # Somebody restored it meanwhile, or the drive's folder is back.
                await context.db.write(lambda conn: reconsider(context, conn, task.op, "It was away."))
                return True
            if is_new and isinstance(error, errors.Conflict):
                raise
            log.info("an item whose contents are needed cannot be restored from the trash: %s", error)
            return False
        log.warning("an item was restored from the trash, because its contents are needed here: %s", name)
        remote = remote_from_item(answer)

        def txn(conn: Connection) -> tuple[list[Change], bool]:
            changes: list[Change] = []
            queue.give_back(conn, task.op, not_before_ns=clock.time_ns())
            now = tree.get(conn, task.op.ino)
            if _has_another(now, remote.id):
                _remove_again(conn, apply_remote.adopt(conn, now.ino, remote), changes)
                return changes, False
            if remote.sha1 == base.sha1 and now.parent is not None:
                adopted = apply_remote.adopt(conn, now.ino, remote)
                if adopted.parent is not None:
                    ops.record_move(conn, adopted, due_ns=clock.time_ns())
            return changes, remote.sha1 != base.sha1

        changes, is_theirs = await context.db.write(txn)
        await context.remote_updates.answered(changes, answer)
    if is_theirs:
        await context.remote_updates.apply([answer], is_answer=True)
    return True


def _has_another(node: Node, item_id: str) -> bool:
    return node.remote_id not in (None, item_id)


def _remove_again(conn: Connection, restored: Node, changes: list[Change]) -> None:
    """Delete what was restored for its contents only, once those are here (`before_deletion`); unless
    somebody changes it."""
    if restored.parent is None or local_work.has_bytes(conn, restored):
        return
    # A poll has shown it before the answer arrived, and a program may have opened it.
    lineages.displace(conn, restored)
    tree.detach(conn, restored.ino)
    changes.append(Change(ChangeKind.GONE, restored.ino, restored.parent, restored.name))
    ops.record_removal(conn, restored, due_ns=clock.time_ns())
