"""Sends moves, renames and modification times.

The last writer wins a place; only names are fought over (`conflicts`).  The answer is applied like any
other news, since the item may have changed in other ways meanwhile.
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

# A folder into one that is below it.
CYCLICAL = "cyclical_folder_structure"

# What steps aside in a ring of names is called this for a moment, also if we die in that moment: then the
# operation is still there and gives it its name.
ASIDE_PREFIX = ".cmsfs-aside-"


async def move(context: PushContext, task: queue.Task) -> None:
    """Carry out a MOVE."""
    node, parent = task.node, task.parent
    assert parent is not None
    name = naming.remote_name(node)
    new_name = name if name != node.base_name else None
    new_parent = parent.remote_id if parent.remote_id != node.base_parent else None
    if new_name is None and new_parent is None:
        await context.db.write(lambda conn: queue.finish(conn, task.op))
        return
    if Ability.CHANGES in context.client.offers.lacking:
        await _undo(context, task)
        return
    try:
        answer = await _update(context, node, name=new_name, parent_id=new_parent)
    except errors.Conflict as error:
        theirs = await conflicts.holder(context, error)
        if node.kind is NodeKind.LINK and name != node.name and isinstance(theirs, items.File | items.Folder):
            await _move_whole(context, task, parent_id=new_parent)
        else:
            await conflicts.keep_both(context, task, theirs)
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
    except errors.ApiError as error:
        if error.code != CYCLICAL or not await _taken_back(context, task):
            raise
    else:
        crashpoints.reached(Point.MOVE_SENT)
        await _done(context, task, answer)


async def _taken_back(context: PushContext, task: queue.Task) -> bool:
    """The folder would be in itself at the service: it goes back to where it is there, and its new place is
    asked about, which has been moved."""
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
    context.remote_updates.publish(changes)
    return is_back


async def _move_whole(context: PushContext, task: queue.Task, *, parent_id: str | None) -> None:
    """A web link `notes.url` cannot be called `notes` at the service, as something else is: it has the whole
    name there."""
    try:
        answer = await _update(context, task.node, name=task.node.name, parent_id=parent_id)
    except errors.Conflict as error:
        await conflicts.keep_both(context, task, await conflicts.holder(context, error))
    else:
        await _done(context, task, answer)


async def _undo(context: PushContext, task: queue.Task) -> None:
    """It has the service's name and place again: it cannot get another there."""
    theirs = await context.get(task.node.kind, task.node.remote_id or "")

    def txn(conn: Connection) -> list[Change]:
        queue.cancel(conn, task.op)
        return apply_remote.apply(conn, [remote_from_item(theirs)], generation=kv_store.generation(conn))

    context.remote_updates.publish(await context.db.write(txn))
    log.warning(
        "%s is called %s again: this service cannot %s", task.node.name, theirs.name, Ability.CHANGES.cannot
    )


async def _update(context: PushContext, node: Node, *, name: str | None, parent_id: str | None) -> items.Item:
    assert node.remote_id is not None
    with context.health.request("move"):
        return await context.client.items.update(node.kind, node.remote_id, name=name, parent_id=parent_id)


async def touch(context: PushContext, task: queue.Task) -> None:
    """Carry out a TOUCH."""
    node = task.node
    assert node.remote_id is not None
    if Ability.CHANGES in context.client.offers.lacking:
        # The time came with the upload, as exact as this service keeps it.
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
            # The item is another node's by now (a backup gave it back), which stays where it is.
            ops.record(conn, now.ino, ops.OpKind.MOVE, due_ns=clock.time_ns())
        moved = has_moved(conn, task.node)
        if moved:
            # While an operation is there its node keeps its place, and only its base learns.
            ops.record(conn, task.node.ino, ops.OpKind.MOVE, due_ns=clock.time_ns())
        queue.finish(conn, task.op)
        # With none left it goes where the item is: somebody else may have moved it in the meantime, too.
        changes = apply_remote.apply(conn, [remote_from_item(answer)], generation=kv_store.generation(conn))
        if moved:
            ops.record_move(conn, tree.get(conn, task.node.ino), due_ns=clock.time_ns())
        return changes

    context.remote_updates.publish(await context.db.write(txn))


async def step_aside(context: PushContext, task: queue.Task) -> None:
    """Break a ring of names: give the item a name that nobody wants, in the folder where it is."""
    try:
        answer = await _update(
            context, task.node, name=f"{ASIDE_PREFIX}{task.node.ino}-{chance.token_hex(4)}", parent_id=None
        )
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
        return

    def txn(conn: Connection) -> list[Change]:
        changes = apply_remote.apply(conn, [remote_from_item(answer)], generation=kv_store.generation(conn))
        # Of what is to be deleted nothing is applied: its etag stays, and news of others are still noticed.
        apply_remote.note_remote_name(conn, task.node.ino, answer.name or "")
        queue.give_back(conn, task.op, not_before_ns=clock.time_ns())
        return changes

    context.remote_updates.publish(await context.db.write(txn))
    log.info("an item got a temporary name, so that others can swap theirs")
