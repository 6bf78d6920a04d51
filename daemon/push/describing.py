"""Description, tags and metadata: the item has what was set here.

The last writer wins; what the service has now is applied like any other news.
"""

import logging
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.facts import Kind as ItemKind
from cmsfs.journal import queue
from cmsfs.models import items
from cmsfs.replica import cursor, facts, remote
from cmsfs.replica.changes import Change
from cmsfs.replica.facts import Described
from cmsfs.replica.nodes import Kind, Node, remote_from_item
from cmsfs.vfs.attrs import instances
from daemon.push import conflicts
from daemon.push.kit import Kit
from daemon.templates import Refused

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
    try:
        answer = await _describe(kit, node, node.remote_id, wish)
        await _set_metadata(kit, node, node.remote_id, wish.metadata)
    except errors.NotFound as error:
        await conflicts.missing(kit, task, error)
        return

    def txn(conn: Connection) -> list[Change]:
        news = [] if answer is None else [remote_from_item(answer)]
        changes = remote.apply(conn, news, generation=cursor.generation(conn))
        facts.sent(conn, node.ino, wish)
        if wish.metadata:
            facts.doubt(conn, node.kind, str(node.remote_id))
        queue.finish(conn, task.op)
        return changes

    kit.incoming.publish(await kit.db.write(txn))


async def _describe(kit: Kit, node: Node, item_id: str, wish: Described) -> items.Item | None:
    tags = wish.tags if node.kind is not Kind.LINK else None
    if wish.description is None and tags is None:
        return None
    with kit.health.request("describe"):
        return await kit.client.facts.describe(
            _KINDS[node.kind], item_id, description=wish.description, tags=tags
        )


async def _set_metadata(kit: Kit, node: Node, item_id: str, wished: dict[str, str]) -> None:
    kind = _KINDS[node.kind]
    if not wished or kind == "web_link":
        return
    for key, text in sorted(wished.items()):
        with kit.health.request("metadata"):
            found = await kit.client.metadata.instances(kind, item_id)
        there = [one.model_dump(by_alias=True) for one in found]
        try:
            await kit.templates.change(kind, item_id, there, instances.at_key(key), text)
        except Refused as error:
            # Asking again would change nothing: it is held until a person decides.
            raise errors.BadRequest(400, "bad_metadata", f"metadata {key}: {error.why}") from error
