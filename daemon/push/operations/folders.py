"""Creates folders at the service.

An existing folder of that name is used: two people who create `docs` mean one folder.
"""

from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.config.abilities import Ability, not_offered
from cmsfs.crashpoints import Point
from cmsfs.journal import ops, queue
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import apply_remote, local_work
from cmsfs.replica.nodes import Node, NodeKind, remote_from_item
from cmsfs.replica.rows import in_flight
from cmsfs.runtime import clock
from daemon.push import conflicts, inflight_recovery
from daemon.push.context import PushContext


async def mkdir(context: PushContext, task: queue.Task) -> None:
    """Carry out a MKDIR."""
    parent = task.parent
    await inflight_recovery.before_create(context, task)
    node = tree.find(context.db, task.op.ino)
    if node is None or not _is_needed(node):
        # Renaming and deleting it are separate operations.
        await context.db.write(lambda conn: _end_unneeded(conn, task))
        return
    assert parent is not None
    assert parent.remote_id is not None
    if context.client.offers.is_lacking(Ability.FOLDERS):
        raise not_offered(Ability.FOLDERS)
    name = naming.remote_name(node)
    with context.remote_updates.making(parent.remote_id, name):
        try:
            sent = in_flight.new_folder(node.ino, parent.remote_id, name)
            async with inflight_recovery.recorded(context, sent):
                with context.health.request("mkdir"):
                    answer = await context.client.folders.create(name, parent.remote_id)
        except errors.Conflict as error:
            await _name_in_use(context, task, error)
        except errors.NotFound as error:
            await conflicts.missing(context, task, error)
        else:
            crashpoints.reached(Point.MKDIR_SENT)
            await _done(context, task, answer, found=False)


def _is_needed(node: Node) -> bool:
    return node.remote_id is None and node.parent is not None


def _end_unneeded(conn: Connection, task: queue.Task) -> None:
    """End the creation, unless the folder was deleted at the service since it was looked at."""
    now = tree.find_at(conn, task.op.ino)
    if now is None or not _is_needed(now):
        queue.finish(conn, task.op)
    else:
        queue.give_back(conn, task.op, not_before_ns=0)


async def _name_in_use(context: PushContext, task: queue.Task, error: errors.Conflict) -> None:
    theirs = await conflicts.holder(context, error)
    is_passing = theirs is not None and theirs.id in context.passing
    if (
        isinstance(theirs, items.Folder)
        and not is_passing
        # It may have been renamed or moved at the service while it was asked for.
        and conflicts.is_at(theirs, task.node, task.parent)
        and conflicts.may_be_ours(context.db, task.node.ino, theirs)
    ):
        await _done(context, task, theirs, found=True)
    elif isinstance(theirs, items.Folder) and conflicts.is_leaving(context, task, task.node, theirs):
        await conflicts.wait_for_place(context, task, theirs)
    else:
        await conflicts.keep_both(context, task, theirs)


async def _done(context: PushContext, task: queue.Task, answer: items.Folder, *, found: bool) -> None:
    # Listed with the folder that it is in, before the answer arrived: by then others may have put something
    # into it, which nothing told us if events were missed.
    was_listed = local_work.deferred_place(context.db, NodeKind.FOLDER, answer.id) is not None

    def txn(conn: Connection) -> list[Change]:
        changes: list[Change] = []
        in_flight.resolve(conn, task.node.ino)
        now = apply_remote.adopt(conn, task.node.ino, remote_from_item(answer))
        if found and (now.parent, now.name) == (task.node.parent, task.node.name):
            _call_as_there(conn, now, changes)
        now = tree.get(conn, task.node.ino)
        if queue.finish(conn, task.op) and now.parent is not None and now.remote_id is None:
            # The folder found belongs to another node by now.
            ops.record(conn, now.ino, ops.OpKind.MKDIR, due_ns=clock.time_ns())
        if found or was_listed:
            tree.mark_unlisted(conn, task.node.ino)
        if not found and now.parent is not None and now.remote_id == answer.id:
            # It may have stepped aside for another folder during the request.
            ops.record_move(conn, now, due_ns=clock.time_ns())
        return changes

    await context.remote_updates.answered(await context.db.write(txn), answer)
    if found or was_listed:
        context.hydrator.list_soon(task.node.ino)


def _call_as_there(conn: Connection, node: Node, changes: list[Change]) -> None:
    """Adopt the service's spelling: `Dir` was created here where the service has `dir`, the same folder."""
    told = naming.file_name(NodeKind.FOLDER, node.base_name or "")
    if (
        node.parent is None
        or told == node.name
        or wire_names.name_key(told) != wire_names.name_key(node.name)
    ):
        return
    tree.place(conn, node.ino, node.parent, told)
    changes.append(Change(ChangeKind.ENTRY, node.ino, node.parent, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, node.parent, told))
