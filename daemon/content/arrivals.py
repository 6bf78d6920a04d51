"""Applies an item that the service has just created or restored to the tree, before the caller reports it."""

from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.nodes import Node, NodeKind, Remote
from daemon.push.context import PushContext


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
