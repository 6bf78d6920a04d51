"""Sends moves, renames and modification times.

The last writer determines the place; only names can conflict (`conflicts`).  The answer is applied like any
other remote change, since the item may have changed in other ways.
"""

import logging
from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.config.abilities import Ability
from cmsfs.crashpoints import Point
from cmsfs.journal import ops, queue
from cmsfs.models.content import items
from cmsfs.replica import kv_store, naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import apply_remote, move_cycles
from cmsfs.replica.nodes import Node, NodeKind, remote_from_item
from cmsfs.runtime import chance, clock
from daemon.push import conflicts
from daemon.push.context import PushContext, has_moved
from daemon.push.operations.uploads import to_timestamp

log = logging.getLogger(__name__)

# Error code for moving a folder into one of its own subfolders.
CYCLICAL = "cyclical_folder_structure"

# Prefix of the temporary name that breaks a ring of renames.  After a crash the operation is still journaled
# and sets the final name.
ASIDE_PREFIX = ".cmsfs-aside-"


class _WasBeingMoved(Exception):
    """The item was being moved for the node that had it before."""


async def move(context: PushContext, task: queue.Task) -> None:
    """Carry out a MOVE."""
    try:
        await _move(context, task)
    except _WasBeingMoved:
        await _look_again(context, task)


async def _move(context: PushContext, task: queue.Task) -> None:
    node, parent = task.node, task.parent
    assert parent is not None
    await _other_move_ended(context, node)
    name = naming.remote_name(node)
    is_renamed, is_moved = name != node.base_name, parent.remote_id != node.base_parent
    if task.op.attempts and not (is_renamed and is_moved):
        is_new = bool(task.op.revision) or not (is_renamed or is_moved)
        was_renamed, was_moved = await _changes_there(context, node, is_new=is_new)
        is_renamed, is_moved = is_renamed or was_renamed, is_moved or was_moved
    if not is_renamed and not is_moved:
        await context.db.write(lambda conn: queue.finish(conn, task.op))
        return
    new_name = name if is_renamed else None
    new_parent = parent.remote_id if is_moved else None
    if context.client.offers.is_lacking(Ability.CHANGES):
        await _undo(context, task)
        return
    try:
        answer = await _update(context, node, name=new_name, parent_id=new_parent)
    except errors.Conflict as error:
        theirs = await conflicts.holder(context, error)
        is_no_link = isinstance(theirs, items.File | items.Folder)
        if theirs is not None and conflicts.is_leaving(context, task, node, theirs):
            # It came to that name by a move of ours that was overtaken by its deletion or another move here.
            await conflicts.wait_for_place(context, task, theirs)
        elif node.kind is NodeKind.LINK and name != node.name and is_no_link:
            await _move_whole(context, task, parent_id=new_parent)
        else:
            if theirs is not None and not conflicts.is_at(theirs, node, task.parent):
                await _look_at(context, node)
            await conflicts.keep_both(context, task, theirs)
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
    except errors.ApiError as error:
        if error.code != CYCLICAL or not await _taken_back(context, task):
            raise
    else:
        crashpoints.reached(Point.MOVE_SENT)
        await _done(context, task, answer)


async def _other_move_ended(context: PushContext, node: Node) -> None:
    """Wait for a move of the item that is under way for the node that had it before: of two moves at once the
    first might be carried out last.  Raises `_WasBeingMoved` if there was one."""
    if node.remote_id is None:
        return
    if await context.remote_updates.other_move_ended((node.kind, node.remote_id), node.ino):
        raise _WasBeingMoved


async def _look_again(context: PushContext, task: queue.Task) -> None:
    """Have the operation carried out anew: the answer to another move may have changed what is left to do."""
    await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=0))


async def _look_at(context: PushContext, node: Node) -> None:
    """Apply the present state of an item that was refused a name which we did not ask for: it was renamed or
    moved at the service, and keeps the part of its place that was not sent."""
    try:
        await context.remote_updates.apply([await context.get(node.kind, node.remote_id or "")])
    except errors.NotFound:
        return  # the next attempt meets that, too


async def _changes_there(context: PushContext, node: Node, *, is_new: bool) -> tuple[bool, bool]:
    """Whether an attempt without an answer may have given the item another name, and another folder, than it
    last had: one to a place where it is not to be any more (`is_new`: it has got another one here since), or
    to a temporary name."""
    try:
        theirs = remote_from_item(await context.get(node.kind, node.remote_id or ""))
    except errors.NotFound:
        return False, False
    is_ours = is_new or theirs.name.startswith(ASIDE_PREFIX)
    return is_ours and theirs.name != node.base_name, is_ours and theirs.parent_id != node.base_parent


async def _taken_back(context: PushContext, task: queue.Task) -> bool:
    """Undo the move of a folder into itself at the service, and request its new parent, which was moved."""
    assert task.parent is not None
    above = await context.get(NodeKind.FOLDER, task.parent.remote_id or "")

    def txn(conn: Connection) -> tuple[bool, list[Change]]:
        changes: list[Change] = []
        is_back = move_cycles.take_back(conn, tree.get(conn, task.node.ino), changes)
        if is_back:
            queue.finish(conn, task.op)
            changes += apply_remote.apply(
                conn, [remote_from_item(above)], generation=kv_store.generation(conn)
            )
        return is_back, changes

    is_back, changes = await context.db.write(txn)
    await context.remote_updates.answered(changes, above)
    return is_back


async def _move_whole(context: PushContext, task: queue.Task, *, parent_id: str | None) -> None:
    """Send a web link `notes.url` under its whole name, since `notes` is in use at the service."""
    try:
        answer = await _update(context, task.node, name=task.node.name, parent_id=parent_id)
    except errors.Conflict as error:
        await conflicts.keep_both(context, task, await conflicts.holder(context, error))
    else:
        await _done(context, task, answer)


async def _undo(context: PushContext, task: queue.Task) -> None:
    """Restore the service's name and place: the item cannot get another there."""
    key = task.node.kind, task.node.remote_id or ""
    known = context.remote_updates.last_known(key)
    theirs = remote_from_item(await context.get(*key))

    def txn(conn: Connection) -> list[Change] | None:
        now = tree.remote_at(conn, *key)
        if known is None or now is None or now.sequence != known:
            # It has changed since: its place is asked for once more.
            queue.give_back(conn, task.op, not_before_ns=0)
            return None
        queue.cancel(conn, task.op)
        return apply_remote.apply(conn, [theirs], generation=kv_store.generation(conn), believed={key: known})

    changes = await context.db.write(txn)
    if changes is not None:
        context.remote_updates.publish(changes)
        log.warning(
            "%s is called %s again: this service cannot %s",
            task.node.name,
            theirs.name,
            Ability.CHANGES.cannot,
        )


async def _update(context: PushContext, node: Node, *, name: str | None, parent_id: str | None) -> items.Item:
    assert node.remote_id is not None
    # Since it was last asked the task may have waited for an answer.
    await _other_move_ended(context, node)
    with context.remote_updates.moving((node.kind, node.remote_id), node.ino), context.health.request("move"):
        return await context.client.items.update(node.kind, node.remote_id, name=name, parent_id=parent_id)


async def touch(context: PushContext, task: queue.Task) -> None:
    """Carry out a TOUCH."""
    node = task.node
    assert node.remote_id is not None
    if context.client.offers.is_lacking(Ability.CHANGES):
        # The upload already set the time, as precisely as this service stores it.
        await context.db.write(lambda conn: queue.finish(conn, task.op))
        return
    try:
        with context.health.request("touch"):
            answer = await context.client.items.update(
                "file", node.remote_id, content_modified_at=to_timestamp(node.mtime_ns)
            )
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
    else:
        await _done(context, task, answer)


async def _done(context: PushContext, task: queue.Task, answer: items.Item) -> None:
    def txn(conn: Connection) -> list[Change]:
        now = tree.remote_at(conn, task.node.kind, answer.id)
        if now is not None and now.ino != task.node.ino:
            # The item belongs to another node by now (a backup restored it), which stays where it is.
            ops.record(conn, now.ino, ops.OpKind.MOVE, due_ns=clock.time_ns())
        moved = has_moved(conn, task.node)
        if moved:
            # While an operation is pending its node keeps its place, and only its base is updated.
            ops.record(conn, task.node.ino, ops.OpKind.MOVE, due_ns=clock.time_ns())
        queue.finish(conn, task.op)
        # Otherwise the node follows the item, which somebody else may have moved, too.
        changes = apply_remote.apply(conn, [remote_from_item(answer)], generation=kv_store.generation(conn))
        if moved:
            ops.record_move(conn, tree.get(conn, task.node.ino), due_ns=clock.time_ns())
        return changes

    await context.remote_updates.answered(await context.db.write(txn), answer)


async def step_aside(context: PushContext, task: queue.Task) -> None:
    """Break a ring of renames: give the item an unused name in its current folder, or in the given one."""
    name = f"{ASIDE_PREFIX}{task.node.ino}-{chance.token_hex(4)}"
    parent_id = task.parent.remote_id if task.parent is not None else None
    try:
        answer = await _update(context, task.node, name=name, parent_id=parent_id)
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
        return
    except _WasBeingMoved:
        await _look_again(context, task)
        return

    def txn(conn: Connection) -> list[Change]:
        changes = apply_remote.apply(conn, [remote_from_item(answer)], generation=kv_store.generation(conn))
        # For an item to be deleted the answer is not applied: its etag stays, so remote changes are still
        # noticed.
        apply_remote.note_remote_name(conn, task.node.ino, answer.name or "", parent_id)
        queue.give_back(conn, task.op, not_before_ns=clock.time_ns())
        return changes

    await context.remote_updates.answered(await context.db.write(txn), answer)
    log.info("an item got a temporary name, so that others can swap theirs")
