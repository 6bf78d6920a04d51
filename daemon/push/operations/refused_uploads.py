"""Handles uploads that the service refuses: the name is in use (409), the item has another version (412), the
item or the folder is gone (404).
"""

import dataclasses
import logging
from pathlib import Path

from cmsfs import errors
from cmsfs.journal import queue
from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.nodes import Base, Node
from cmsfs.replica.rows import in_flight
from cmsfs.runtime import clock
from daemon.push import conflicts
from daemon.push.context import PushContext
from daemon.push.operations import append_merge

log = logging.getLogger(__name__)


async def name_in_use(
    context: PushContext, task: queue.Task, node: Node, error: errors.Conflict
) -> items.File | None:
    """Return the file with the name if it is an earlier upload of ours; None: both are kept, or the operation
    is retried."""
    theirs = await conflicts.holder(context, error)
    if not isinstance(theirs, items.File):
        await conflicts.keep_both(context, task, theirs)
        return None
    sent = {one.sha1 for one in in_flight.new_items(context.db, node.ino)}
    if theirs.sha1 in (node.sha1, *sent) and conflicts.may_be_ours(context.db, node.ino, theirs):
        log.info("found an earlier upload whose response was lost; adopting it")
        return theirs
    if conflicts.is_leaving(context, task, node, theirs):
        await conflicts.wait_for_place(context, task, theirs)
        return None
    await conflicts.keep_both(context, task, theirs)
    append_merge.note_copy(context, node, theirs)
    return None


async def other_version(
    context: PushContext, task: queue.Task, node: Node, path: Path
) -> Base | items.File | None:
    """Return the version to replace after all, or the file if it already has these contents; None: both are
    kept, or the change was followed in another way."""
    try:
        theirs = await context.get(node.kind, node.remote_id or "")
    except errors.NotFound as error:
        await missing(context, task, node, error)
        return None
    if not isinstance(theirs, items.File) or theirs.sha1 == node.sha1:
        return theirs if isinstance(theirs, items.File) else None
    now = tree.find(context.db, node.ino)
    if now is None or now.remote_id != node.remote_id:
        # Another local file, with newer contents, has taken its place.
        await context.db.write(lambda conn: queue.give_back(conn, task.op, not_before_ns=clock.time_ns()))
        return None
    ours = theirs.sha1 in (node.base_sha1, now.base_sha1)
    if not ours and not in_flight.is_version(context.db, theirs.id, theirs.sha1):
        if not await append_merge.continue_in_copy(context, task, node, path, theirs):
            await conflicts.keep_both(context, task, theirs, anew=True)
            append_merge.note_copy(context, node, theirs)
        return None
    # Renamed, moved or described there; its contents are our base or our previous upload.
    if theirs.etag is None or theirs.sha1 is None:
        raise errors.ProtocolError("the service does not say which version of a file it has")
    return Base(theirs.id, theirs.etag, theirs.sha1)


async def missing(context: PushContext, task: queue.Task, node: Node, error: errors.NotFound) -> None:
    """Handle that the service does not know the item or the folder."""
    # Refer to the node as it is now: it may stand for another item than when the task was claimed.
    await conflicts.missing(context, dataclasses.replace(task, node=node), error)
