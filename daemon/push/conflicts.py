"""Conflicts: the service's state differs from the base of a local change.

    here             at the service     becomes
    new name         name in use        theirs keeps it, ours is a conflict copy; equal content is one file
    new bytes        other new bytes    theirs keeps name and ID, ours is a conflict copy and a new file
    appended bytes   other new bytes    the same; a copy that is there already goes on instead (`appends`)
    anything         gone               with bytes of ours: made anew; without: gone here too
    part of a file   in the trash       restored, ours is the next version (`operations.lost_base`)
    a backup's bytes in the trash       restored, as the backup (`operations.lost_base`)
    new place        folder gone        the folder is made anew
    folder deleted   unsent bytes in it shown in a folder above, once it is gone there

Rule: one transaction applies theirs, renames ours and updates the operation, so that after a crash the
conflict is either unresolved or resolved.
"""

import logging
from enum import Enum, auto
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.journal import ops, queue
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.replica import kv_store, naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import apply_remote, deletions, lineages, local_work, name_conflicts, placement
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind, remote_from_item
from cmsfs.replica.rows import in_flight
from cmsfs.replica.sharing import lost_access, shares
from cmsfs.sqlite import Database
from daemon.account import access_loss
from daemon.core import root_check
from daemon.core.remote_updates import RemovedItem
from daemon.push.context import PushContext, has_moved, reconsider

log = logging.getLogger(__name__)

NAME_IN_USE = "item_name_in_use"
KEPT_BOTH = "The name is taken at the service; both items are kept."

# An existing item that cannot be requested is usually gone at the next attempt.
UNTOLD_ATTEMPTS = 3

# An item reported missing but found on request was restored meanwhile; repeated refusals have another cause.
MISSING_ATTEMPTS = 3


async def holder(context: PushContext, error: errors.Conflict) -> items.Item | None:
    """Return the item whose name we were refused; None if the service does not say, or it is gone again.

    Raises `error` itself if it has another reason.
    """
    if error.code != NAME_IN_USE:
        raise error
    told = error.conflict or {}
    try:
        theirs = await context.find(NodeKind(str(told.get("type"))), str(told["id"]))
    except (ValueError, KeyError):
        return None
    # Our own deletion or move of it may have ended while it was asked for.
    updates = context.remote_updates
    is_gone = theirs is None or updates.was_deleted(theirs) or updates.has_left(theirs)
    return None if is_gone else theirs


def may_be_ours(db: Database, ino: Ino, item: items.Item) -> bool:
    """Whether no other node belongs to the item.  A poll may have assigned it to our node meanwhile."""
    node = tree.find_remote(db, NodeKind(item.type), item.id)
    return node is None or node.ino == ino


def is_leaving(context: PushContext, task: queue.Task, node: Node, theirs: items.Item) -> bool:
    """Whether the conflicting item is also ours, and a pending operation will move or delete it; or one that
    another node had before is moving it at this moment."""
    folder = task.parent.remote_id if task.parent is not None else None
    name = naming.remote_name(node)
    if isinstance(theirs, items.File) and in_flight.belongs_to_other_node(
        context.db, node.ino, folder or "", name, theirs.sha1
    ):
        return True
    holder = tree.find_remote(context.db, NodeKind(theirs.type), theirs.id)
    if holder is None or holder.ino == node.ino:
        return False
    if context.remote_updates.is_moved_for_another((holder.kind, theirs.id), holder.ino):
        return True
    leaving = (ops.OpKind.MOVE, ops.OpKind.TRASH)
    return any(op.kind in leaving and op.state != "held" for op in queue.states(context.db, holder.ino))


async def wait_for_place(context: PushContext, task: queue.Task, theirs: items.Item) -> None:
    """Retry the operation once the item, which is ours, has left the place; or later, if nobody tells."""
    context.blocked.setdefault(theirs.id, set()).add(task.op.seq)

    def txn(conn: Connection) -> None:
        holder = tree.remote_at(conn, NodeKind(theirs.type), theirs.id)
        if holder is not None and theirs.name:
            # Its place here may be outdated: the queue has to know what waits for what.
            parent_id = theirs.parent.id if theirs.parent is not None else None
            apply_remote.note_remote_name(conn, holder.ino, theirs.name, parent_id)
        reconsider(context, conn, task.op, "An earlier item is in the way.")

    await context.db.write(txn)


async def keep_both(
    context: PushContext, task: queue.Task, theirs: items.Item | None, *, anew: bool = False
) -> None:
    """Keep both: theirs keeps its name, ours is renamed and sent again, as a new item if `anew`."""
    if theirs is not None and theirs.id in context.passing:
        await context.db.write(
            lambda conn: reconsider(context, conn, task.op, "An item that is being restored is in the way.")
        )
        return
    if isinstance(theirs, items.WebLink) and not anew and await _steps_beside(context, task, theirs):
        return

    if theirs is None:
        context.untold[task.op.seq] += 1

    def txn(conn: Connection) -> list[Change]:
        if anew:
            local_work.forget(conn, task.node.ino)
        changes: list[Change] = []
        if theirs is not None:
            changes += apply_remote.apply(
                conn, [remote_from_item(theirs)], generation=kv_store.generation(conn)
            )
        node = tree.find_at(conn, task.node.ino)
        if node is None:
            # Meanwhile a newer version gave the item, with the operation, to another inode, and this one was
            # closed: the next attempt is for that one.
            reconsider(context, conn, task.op, KEPT_BOTH)
            return changes
        if anew and theirs is not None:
            lineages.transfer_item_data(
                conn, node.ino, tree.remote_at(conn, NodeKind(theirs.type), theirs.id)
            )
        is_itself = theirs is not None and node.remote_id == theirs.id and node.kind == theirs.type
        stays = node.parent is not None and not has_moved(conn, task.node)
        if stays and not is_itself and _is_in_the_way(context, theirs, node, task):
            name_conflicts.make_conflict_copy(conn, node, changes)
            if node.parent is not None:
                placement.restore_name(conn, node.parent, node.name, changes, at_once=True)
        reconsider(context, conn, task.op, KEPT_BOTH)
        return changes

    made = await context.db.write(txn)
    if theirs is not None:
        await context.remote_updates.answered(made, theirs)
        context.list_soon(theirs)
    else:
        context.remote_updates.publish(made)
    log.info("another item has the same name at the service; both are kept")


async def _steps_beside(context: PushContext, task: queue.Task, link: items.WebLink) -> bool:
    """Whether a web link was renamed out of the way: it is `notes.url` beside our `notes`, here and there."""
    shown = naming.file_name(NodeKind.LINK, link.name or "")
    if link.name == shown or wire_names.name_key(task.node.name) == wire_names.name_key(shown):
        return False
    try:
        with context.health.request("move"):
            answer = await context.client.web_links.update(link.id, name=shown, etag=link.etag)
    except (errors.Conflict, errors.PreconditionFailed, errors.Forbidden, errors.NotFound):
        return False

    def txn(conn: Connection) -> list[Change]:
        reconsider(context, conn, task.op, KEPT_BOTH)
        return apply_remote.apply(conn, [remote_from_item(answer)], generation=kv_store.generation(conn))

    await context.remote_updates.answered(await context.db.write(txn), answer)
    log.info("a web link keeps its full name, because a local item has the short one")
    return True


def _is_in_the_way(context: PushContext, theirs: items.Item | None, node: Node, task: queue.Task) -> bool:
    """Whether theirs still occupies our target name, as far as is known."""
    if theirs is None:
        # Gone on request, or the service does not identify it and keeps refusing.  Attempts that met an item
        # of ours, which had to leave first, do not count.
        return context.untold[task.op.seq] > UNTOLD_ATTEMPTS
    return is_at(theirs, node, task.parent)


def is_at(theirs: items.Item, node: Node, parent: Node | None) -> bool:
    """Whether the item has the name of this node in this folder."""
    where = theirs.parent.id if theirs.parent else None
    called = wire_names.name_key(naming.remote_name(node))
    folder = parent.remote_id if parent is not None else None
    return (where, wire_names.name_key(theirs.name or "")) == (folder, called)


async def missing(context: PushContext, task: queue.Task, error: errors.NotFound) -> None:
    """Handle an item or target folder that the service does not know: determine which, and follow the
    deletion.

    If it knows both, they were briefly in the trash, and the operation is retried; raises `error` if that
    keeps happening, and `RootGone` if the drive's own root folder is gone.
    """
    await root_check.check(context.db, context.client, context.health)
    node, parent = task.node, task.parent
    top = await context.db.query(lambda conn: shares.top(conn, node.ino))
    # The shared folder that it is in, to which we lost access; itself; and where it is to go.
    for one in (top, node, parent):
        if one is not None and (absence := await _absence(context, one)) is not None:
            await _gone(context, task, one, absence)
            return
    if task.op.attempts < MISSING_ATTEMPTS:
        await context.db.write(
            lambda conn: reconsider(context, conn, task.op, "It was not there for a moment.")
        )
    else:
        raise error


class _Absence(Enum):
    ALONE = auto()
    # With the folder that it was in at the service, or that is unknown.
    WITH_FOLDER = auto()


async def _absence(context: PushContext, node: Node) -> _Absence | None:
    """Return how the service lacks an item; None if it has it, or never had it."""
    if node.remote_id is None or node.ino == ROOT:
        return None
    if await context.find(node.kind, node.remote_id) is not None:
        return None
    if not await context.may_be_back(node):
        return _Absence.WITH_FOLDER
    return _Absence.ALONE if await context.find(node.kind, node.remote_id) is None else None


async def _gone(context: PushContext, task: queue.Task, what: Node, absence: _Absence) -> None:
    """Apply the deletion of `what` at the service; items that only we have are created anew."""
    assert what.remote_id is not None
    gone = [RemovedItem(what.kind, what.remote_id)]
    await context.remote_updates.apply(
        await access_loss.still_visible(context.db, context.client, context.health, gone)
    )

    def txn(conn: Connection) -> tuple[list[Change], Ino | None]:
        changes: list[Change] = []
        unlisted = None
        if absence is _Absence.WITH_FOLDER:
            unlisted = deletions.unlist_base_folder(conn, what)
        # It may have been deleted here during the request.
        now = tree.find_at(conn, what.ino)
        if now is not None and now.remote_id == what.remote_id:
            changes = deletions.remove_gone(conn, what.ino)
            now = tree.find_at(conn, what.ino)
        if now is not None and now.is_lost:
            queue.hold(conn, task.op, error=lost_access.REASON)
        else:
            reconsider(context, conn, task.op, "It was deleted at the service.")
        return changes, unlisted

    changes, unlisted = await context.db.write(txn)
    context.remote_updates.publish(changes)
    if unlisted is not None:
        context.hydrator.list_soon(unlisted)
    log.info("an item with pending changes was deleted at the service")
