"""Applies an item that the service has just created or restored to the tree, before the caller reports it."""

from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import Node, NodeKind, Remote, remote_from_item
from daemon.push.context import PushContext

# A program waits that has had no answer to a change of the item.
LOOK_SECONDS = 2.0


async def looked_at(context: PushContext, item: Remote) -> Remote:
    """Return an item as the service has it now; as it was, if the service does not say so soon."""
    with trio.move_on_after(LOOK_SECONDS):
        try:
            return remote_from_item(await context.get(item.kind, item.id))
        except errors.CmsfsError:
            pass
    return item


async def arrived(context: PushContext, item: Remote) -> Node | None:
    """Apply an item and return its node.  A folder is listed soon, since nothing reports its contents."""

    def note(conn: Connection) -> None:
        node = tree.remote_at(conn, item.kind, item.id)
        if node is not None:
            tree.mark_unlisted_below(conn, node.ino)

    is_folder = item.kind is NodeKind.FOLDER
    await context.remote_updates.apply([item.item], note=note if is_folder else None, is_answer=True)
    node = tree.find_remote(context.db, item.kind, item.id)
    if is_folder and node is not None and node.parent is not None:
        context.hydrator.list_soon(node.ino)
    return node
