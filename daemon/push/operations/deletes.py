"""Sends deletions: the item goes to the service's trash.

A file is deleted only in the version that was deleted here; if its contents differ by now it comes back, and
so do a folder with items unknown to this machine, and items that the service refuses to delete.  A folder is
deleted with its contents in one request if the service can verify that they are what was deleted here.

Rule: an item shared by somebody else is never deleted at its top: we leave it (`daemon.account.leave`).
"""

import logging
from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.config.abilities import Ability
from cmsfs.crashpoints import Point
from cmsfs.journal import ops, queue, tree_removal
from cmsfs.models import url_files
from cmsfs.models.content import items
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import apply_remote, deletions, local_work, placement
from cmsfs.replica.nodes import Ino, Node, remote_from_item, shortcut_of
from cmsfs.replica.rows import in_flight
from cmsfs.replica.sharing import shares
from daemon.account import leave
from daemon.core import root_check
from daemon.push import inflight_recovery
from daemon.push.context import PushContext, reconsider

log = logging.getLogger(__name__)

# Number of attempts to delete an item whose name or place changes meanwhile.
ATTEMPTS = 3

_CANNOT = f"This service cannot {Ability.DELETIONS.cannot}"

NOT_EMPTY = "folder_not_empty"

# Items that are to be moved: an earlier move of theirs may have had no answer.
_MOVED_ELSEWHERE = """
  SELECT n.ino FROM op AS o JOIN node AS n ON n.ino = o.ino
    WHERE o.kind = 'move' AND o.state <> 'held' AND n.remote_id IS NOT NULL AND n.parent IS NOT NULL
      AND n.parent <> ?1 AND n.base_parent IS NOT ?2 ORDER BY o.seq LIMIT ?3
"""
# As many of them are asked for.
LEAVERS = 20


async def trash(context: PushContext, task: queue.Task) -> None:
    """Carry out a TRASH."""
    node, etag = task.node, task.node.etag
    # It may have been uploaded as a file of its own before it took over the identity of another.
    await inflight_recovery.before_delete(context, node.ino)
    if node.remote_id is None:
        # An earlier upload has been found; the next run of the operation handles it.
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=0))
        return
    if context.client.offers.is_lacking(Ability.DELETIONS):
        # Journaled before this was known; such deletions are refused at the system call.
        await _refused(context, task, errors.NotSupported(405, "not_offered", _CANNOT))
        return
    if await context.db.query(lambda conn: leave.leaves_share(conn, node)):
        await _leave(context, task)
        return
    # An earlier answer may have told of a newer state, which was not applied to a node without a place.
    seen = local_work.deferred_sequence(context.db, node.kind, node.remote_id)
    if node.is_folder and context.profile.known_trees and not task.op.attempts:
        found = await context.db.query(lambda conn: tree_removal.below(conn, node))
        if found.items:
            await _delete_whole(context, task, found, seen=seen)
            return
    await context.before_deletion(node.remote_id)
    was_missing = False
    for _ in range(ATTEMPTS):
        now = tree.find(context.db, node.ino)
        if now is not None and _is_shown_again(now):
            await context.db.write(lambda conn: queue.cancel(conn, task.op))
            return
        try:
            await _delete(context, node, etag)
        except errors.NotFound:
            # Somebody else deleted it first, or a folder above it, with which it may come back; or the whole
            # drive is temporarily unavailable.
            await root_check.check(context.db, context.client, context.health)
            if not was_missing and await context.may_be_back(node):
                was_missing = True
                continue
            await _done(context, task, by_us=False, is_folder_away=not was_missing)
            return
        except errors.PreconditionFailed:
            theirs = await _look(context, node)
            if theirs is not None and not _is_known(context, node, theirs):
                await _return(context, task, theirs)
                return
            if theirs is not None:
                etag, seen = theirs.etag, remote_from_item(theirs).sequence
            # Otherwise it went meanwhile, and may come back with other contents.
            continue
        except errors.Forbidden as error:
            await _refused(context, task, error)
            return
        except errors.ApiError as error:
            if error.code != NOT_EMPTY:
                raise
            theirs = await _look(context, node)
            if theirs is None:
                continue  # it went meanwhile, and may come back with what is in it
            if await _know_leavers(context, node):
                break
            await _return(context, task, theirs)
            return
        crashpoints.reached(Point.TRASH_SENT)
        await _done(context, task, seen=seen)
        return
    await context.db.write(
        lambda conn: reconsider(context, conn, task.op, "The item is being changed at the service.")
    )


async def _delete_whole(
    context: PushContext, task: queue.Task, found: tree_removal.Below, *, seen: int
) -> None:
    """Delete a folder with all its contents in one request; if it has other contents or the request fails,
    its items are deleted one by one."""
    node = task.node
    assert node.remote_id is not None
    await context.before_deletion(None)
    try:
        if not found.goes or found.is_busy:
            raise errors.PreconditionFailed(412, "precondition_failed", "There is more in it.")
        with context.health.request("delete"):
            await context.client.items.delete_known(node.remote_id, found.digest)
    except (errors.RateLimited, errors.ServerError, errors.Unauthorized):
        raise
    except errors.ApiError as error:
        log.debug("a folder is not deleted as a whole: %s", error)
        await context.db.write(lambda conn: queue.try_again(conn, task.op))
        return
    crashpoints.reached(Point.TRASH_SENT)

    def txn(conn: Connection) -> list[Change]:
        tree_removal.end(conn, found)
        return _record_done(context, conn, task, seen=seen)

    context.remote_updates.publish(await context.db.write(txn))
    for ino, *_ in found.items:
        context.ended(ino)


async def _leave(context: PushContext, task: queue.Task) -> None:
    """Leave an item that somebody else shares: it disappears here only."""
    node = task.node
    me = (await context.db.query(shares.rules)).me or ""
    try:
        await leave.leave(context.client, context.health, node, me)
    except errors.NotFound:
        pass  # no longer shared with us
    except errors.Forbidden as error:
        await _refused(context, task, error)
        return
    crashpoints.reached(Point.TRASH_SENT)

    def txn(conn: Connection) -> list[Change]:
        changes: list[Change] = []
        now = tree.find_at(conn, node.ino)
        if now is not None and now.remote_id == node.remote_id and now.parent is None:
            leave.record_left(conn, now, changes)
        in_flight.resolve(conn, node.ino, node.remote_id)
        queue.finish(conn, task.op)
        return changes

    context.remote_updates.publish(await context.db.write(txn))


def _is_known(context: PushContext, node: Node, theirs: items.Item) -> bool:
    """Whether the file has the contents that were deleted here, or that we had uploaded without a response;
    for a web link, whether it is unchanged."""
    if isinstance(theirs, items.WebLink):
        return shortcut_of(theirs) == url_files.of_item(tree.item_json(context.db, node.ino))
    if not isinstance(theirs, items.File):
        return True
    return theirs.sha1 == node.base_sha1 or in_flight.is_version(context.db, theirs.id, theirs.sha1)


def _is_shown_again(now: Node) -> bool:
    """Whether an item that was deleted here has been shown again since: somebody else deleted it, too, and
    restored it.  One that stayed on this machine for a while is not meant."""
    return now.parent is not None and not now.local


async def _delete(context: PushContext, node: Node, etag: str | None) -> None:
    assert node.remote_id is not None
    with context.health.request("delete"):
        # A folder needs no etag: the service refuses to delete one that is not empty.
        etag = None if node.is_folder else etag
        await context.client.items.delete(node.kind, node.remote_id, etag=etag)


async def _look(context: PushContext, node: Node) -> items.Item | None:
    return await context.find(node.kind, node.remote_id or "")


async def _know_leavers(context: PushContext, folder: Node) -> bool:
    """Learn which items that are to be moved elsewhere are in this folder by now: its deletion waits for them
    (`queue.waits_for`).  Return whether there are any."""
    rows = context.db.rows(_MOVED_ELSEWHERE, folder.ino, folder.remote_id, LEAVERS)
    found: list[items.Item] = []
    for row in rows:
        node = tree.find(context.db, row["ino"])
        item = await _look(context, node) if node is not None else None
        if item is not None and item.parent is not None and item.parent.id == folder.remote_id:
            found.append(item)
    await context.remote_updates.apply(found)
    return bool(found)


async def _done(
    context: PushContext,
    task: queue.Task,
    *,
    seen: int = 0,
    by_us: bool = True,
    is_folder_away: bool = False,
) -> None:
    """Record the deletion; one by somebody else is also reported, and only that report says how it was.

    `seen`: the sequence of the item when it was looked at before.  `is_folder_away`: so is the folder that it
    was in.
    """

    def txn(conn: Connection) -> tuple[list[Change], Ino | None]:
        unlisted = deletions.unlist_base_folder(conn, task.node) if is_folder_away else None
        return _record_done(context, conn, task, seen=seen, by_us=by_us), unlisted

    changes, unlisted = await context.db.write(txn)
    context.remote_updates.publish(changes)
    if unlisted is not None:
        context.hydrator.list_soon(unlisted)


def _record_done(
    context: PushContext, conn: Connection, task: queue.Task, *, seen: int = 0, by_us: bool = True
) -> list[Change]:
    changes: list[Change] = []
    now = tree.find_at(conn, task.node.ino)
    # The event of the deletion may come before its answer: then the node may be forgotten already.
    if now is not None and now.remote_id == task.node.remote_id and _is_shown_again(now):
        assert now.remote_id is not None
        # Only the service knows whether that is the newer news.
        local_work.defer(conn, local_work.DeferredUpdate(now.kind, now.remote_id, local_work.ANYHOW, now.ino))
    elif now is not None and now.remote_id == task.node.remote_id:
        if now.is_folder and now.parent is None:
            changes = deletions.remove_below(conn, now.ino)
        deletions.mark_deleted(conn, task.node.ino, sent=task.node.sequence, seen=seen, is_certain=by_us)
        if by_us and now.remote_id is not None:
            # News from before may come when the node is no longer known.
            sequence = tree.get(conn, now.ino).sequence
            context.remote_updates.deleted.note(conn, (now.kind, now.remote_id), sequence)
        ops.drop(conn, task.node.ino, ops.OpKind.MOVE)
        placement.restore_base_name(conn, now, changes)
    in_flight.resolve(conn, task.node.ino, task.node.remote_id)
    queue.finish(conn, task.op)
    return changes


async def _refused(context: PushContext, task: queue.Task, error: errors.ApiError) -> None:
    """Restore an item whose deletion the service refused, and report it."""
    theirs = await _look(context, task.node)
    if theirs is None:
        await _done(context, task, by_us=False)  # not visible to us either
        return
    # Before the commit: a program that sees the operation end may retry at once.
    context.deletion_refused(task.node, error)
    await _return(context, task, theirs)


async def _return(context: PushContext, task: queue.Task, theirs: items.Item) -> None:
    """Restore the service's item: it changed, or cannot be deleted."""

    def txn(conn: Connection) -> list[Change]:
        queue.cancel(conn, task.op)
        ops.drop(conn, task.node.ino, ops.OpKind.MOVE)
        tree.mark_unlisted(conn, task.node.ino)
        return apply_remote.apply(conn, [remote_from_item(theirs)], generation=kv_store.generation(conn))

    await context.remote_updates.answered(await context.db.write(txn), theirs)
    log.info("a rejected deletion is undone")
    back = tree.find_remote(context.db, task.node.kind, task.node.remote_id or "")
    if back is not None and back.is_folder:
        context.hydrator.list_soon(back.ino)
