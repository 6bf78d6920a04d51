"""Applies an item that the service has just created or restored to the tree, before the caller reports it.

An item that is being deleted from here is not restored before that has ended: otherwise a deletion without an
answer would be sent again, and delete what was restored.
"""

from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.journal import queue
from cmsfs.replica import inodes, tree
from cmsfs.replica.merge import local_work
from cmsfs.replica.nodes import Ino, Node, NodeKind, Remote, remote_from_item
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher

# A program waits that has had no answer to a change of the item.
LOOK_SECONDS = 2.0


async def removal_ended(context: PushContext, push: Dispatcher, item: Remote, *, seconds: float) -> bool:
    """Wait while our deletion of the item is pending; return whether it ended within `seconds`."""

    async def has_ended() -> bool:
        return not queue.is_being_removed(context.db, item.kind, item.id)

    return await push.until(has_ended, seconds=seconds)


async def looked_at(context: PushContext, item: Remote) -> Remote | None:
    """Return an item as the service has it now, None: not any more; as it was, if the service does not say so
    soon."""
    with trio.move_on_after(LOOK_SECONDS):
        try:
            return remote_from_item(await context.get(item.kind, item.id))
        except errors.NotFound:
            return None
        except errors.CmsfsError:
            pass
    return item


async def seen_again(context: PushContext, item: Remote) -> Remote | None:
    """Look at an item after a request without an answer, and apply it where it is, as far as is known.

    A later state of it may have been reported, as one that cannot be told from ours: then it is not shown
    where it was before, but by that deferred update.
    """
    now = await looked_at(context, item)
    has_later = local_work.deferred_sequence(context.db, item.kind, item.id) > item.sequence
    if now is not None and not (now is item and has_later):
        await arrived(context, now)
    return now


async def arrived(context: PushContext, item: Remote, *, chosen: Ino | None = None) -> Node | None:
    """Apply an item and return its node.  A folder is listed soon, since nothing reports its contents.

    `chosen`: the folder to which a program moved it, under a name that it knows.
    """
    is_folder = item.kind is NodeKind.FOLDER

    def note(conn: Connection) -> None:
        node = tree.remote_at(conn, item.kind, item.id)
        if node is not None and is_folder:
            tree.mark_unlisted_below(conn, node.ino)
        if node is not None and chosen is not None and node.parent == chosen:
            inodes.note_chosen(conn, node.ino)

    await context.remote_updates.apply([item.item], note=note, is_answer=True)
    await context.remote_updates.follow_deletion(item.item)
    node = tree.find_remote(context.db, item.kind, item.id)
    if is_folder and node is not None and node.parent is not None:
        context.hydrator.list_soon(node.ino)
    return node
