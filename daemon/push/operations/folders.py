"""Creates folders at the service.

A folder of that name that is there already is as good as one that we make: two people who make `docs` mean
one folder.
"""

from sqlite3 import Connection

from cmsfs import crashpoints, errors
from cmsfs.crashpoints import Point
from cmsfs.journal import in_flight, ops, queue
from cmsfs.models import wire_names
from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Node, NodeKind, remote_from_item
from daemon.push import adopt_response, conflicts, inflight_recovery
from daemon.push.context import PushContext, reconsider


async def mkdir(kit: PushContext, task: queue.Task) -> None:
    """Carry out a MKDIR."""
    parent = task.parent
    await inflight_recovery.before_create(kit, task)
    node = tree.find(kit.db, task.op.ino)
    if node is None or node.remote_id is not None or node.parent is None:
        # What it is to be called, and whether it is to be at all, is for operations of their own.
        await kit.db.write(lambda conn: queue.finish(conn, task.op))
        return
    assert parent is not None
    assert parent.remote_id is not None
    name = naming.remote_name(node)
    with kit.incoming.making(parent.remote_id, name):
        try:
            sent = in_flight.new_folder(node.ino, parent.remote_id, name)
            async with inflight_recovery.recorded(kit, sent):
                with kit.health.request("mkdir"):
                    answer = await kit.client.folders.create(name, parent.remote_id)
        except errors.Conflict as error:
            await _name_in_use(kit, task, error)
        except errors.NotFound as error:
            await conflicts.missing(kit, task, error)
        else:
            crashpoints.reached(Point.MKDIR_SENT)
            await _done(kit, task, answer, found=False)


async def _name_in_use(kit: PushContext, task: queue.Task, error: errors.Conflict) -> None:
    theirs = await conflicts.holder(kit, error)
    if isinstance(theirs, items.Folder) and conflicts.may_be_ours(kit.db, task.node.ino, theirs):
        await _done(kit, task, theirs, found=True)
        kit.hydrate.list_soon(task.node.ino)
    elif isinstance(theirs, items.Folder) and conflicts.is_leaving(kit, task, task.node, theirs):
        await kit.db.write(lambda conn: reconsider(conn, task.op, "An earlier folder is in the way."))
    else:
        await conflicts.keep_both(kit, task, theirs)


async def _done(kit: PushContext, task: queue.Task, answer: items.Folder, *, found: bool) -> None:
    def txn(conn: Connection) -> list[Change]:
        changes: list[Change] = []
        in_flight.resolve(conn, task.node.ino)
        now = adopt_response.adopt(conn, task.node.ino, remote_from_item(answer))
        if found and (now.parent, now.name) == (task.node.parent, task.node.name):
            _call_as_there(conn, now, changes)
        now = tree.get(conn, task.node.ino)
        if queue.finish(conn, task.op) and now.parent is not None and now.remote_id is None:
            # What was found stands for another node by now.
            ops.record(conn, now.ino, ops.OpKind.MKDIR, due_ns=ops.now_ns())
        if found:
            tree.mark_unlisted(conn, task.node.ino)
        return changes

    kit.incoming.publish(await kit.db.write(txn))


def _call_as_there(conn: Connection, node: Node, changes: list[Change]) -> None:
    """`Dir` was made here where the service has `dir`, which is one folder: it is called as it is there."""
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
