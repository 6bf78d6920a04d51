"""Description and tags: the item has what was set here.

The last writer wins; what the service has now is applied like any other news.
"""

import logging
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.facts import Kind as ItemKind
from cmsfs.journal import queue
from cmsfs.replica import cursor, facts, remote
from cmsfs.replica.changes import Change
from cmsfs.replica.facts import Described
from cmsfs.replica.nodes import Kind, remote_from_item
from daemon.push import conflicts
from daemon.push.kit import Kit

log = logging.getLogger(__name__)

_KINDS: dict[Kind, ItemKind] = {Kind.FILE: "file", Kind.FOLDER: "folder", Kind.LINK: "web_link"}


async def describe(kit: Kit, task: queue.Task) -> None:
    """Carry out a DESCRIBE."""
    node = task.node
    wish = facts.described(kit.db, node.ino)
    assert node.remote_id is not None
    if wish == Described():
        await kit.db.write(lambda conn: queue.finish(conn, task.op))
        return
    tags = wish.tags if node.kind is not Kind.LINK else None
    try:
        with kit.health.request("describe"):
            answer = await kit.client.facts.describe(
                _KINDS[node.kind], node.remote_id, description=wish.description, tags=tags
            )
    except errors.NotFound as error:
        await conflicts.missing(kit, task, error)
        return

    def txn(conn: Connection) -> list[Change]:
        changes = remote.apply(conn, [remote_from_item(answer)], generation=cursor.generation(conn))
        facts.sent(conn, node.ino, wish)
        queue.finish(conn, task.op)
        return changes

    kit.incoming.publish(await kit.db.write(txn))
