"""Sends description, tags and metadata.

The last writer wins; the service's answer is applied like any other remote change.
"""

import logging
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.content.items import ItemKind
from cmsfs.config.abilities import Ability, not_offered
from cmsfs.journal import queue
from cmsfs.models.content import items
from cmsfs.replica import item_details, kv_store
from cmsfs.replica.changes import Change
from cmsfs.replica.item_details import Described
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import Node, NodeKind, remote_from_item
from cmsfs.vfs import metadata_values
from daemon.push import conflicts
from daemon.push.context import PushContext
from daemon.push.metadata_writer import ValueRefused

log = logging.getLogger(__name__)

_KINDS: dict[NodeKind, ItemKind] = {
    NodeKind.FILE: "file",
    NodeKind.FOLDER: "folder",
    NodeKind.LINK: "web_link",
}


async def describe(context: PushContext, task: queue.Task) -> None:
    """Carry out a DESCRIBE."""
    node = task.node
    wish = item_details.described(context.db, node.ino)
    assert node.remote_id is not None
    if wish == Described():
        await context.db.write(lambda conn: queue.finish(conn, task.op))
        return
    if context.client.offers.is_lacking(Ability.CHANGES):
        raise not_offered(Ability.CHANGES)
    try:
        answer = await _describe(context, node, node.remote_id, wish)
        await _set_metadata(context, node, node.remote_id, wish.metadata)
    except errors.NotFound as error:
        await conflicts.missing(context, task, error)
        return

    def txn(conn: Connection) -> list[Change]:
        news = [] if answer is None else [remote_from_item(answer)]
        changes = apply_remote.apply(conn, news, generation=kv_store.generation(conn))
        item_details.mark_sent(conn, node.ino, wish)
        if wish.metadata:
            item_details.mark_stale(conn, node.kind, str(node.remote_id))
        queue.finish(conn, task.op)
        return changes

    context.remote_updates.publish(await context.db.write(txn))
    if answer is not None:
        await context.remote_updates.follow_deletion(answer)


async def _describe(context: PushContext, node: Node, item_id: str, wish: Described) -> items.Item | None:
    tags = wish.tags if node.kind is not NodeKind.LINK else None
    if wish.description is None and tags is None:
        return None
    with context.health.request("describe"):
        return await context.client.items.describe(
            _KINDS[node.kind], item_id, description=wish.description, tags=tags
        )


async def _set_metadata(context: PushContext, node: Node, item_id: str, wished: dict[str, str]) -> None:
    kind = _KINDS[node.kind]
    if not wished or kind == "web_link":
        return
    for key, text in sorted(wished.items()):
        with context.health.request("metadata"):
            found = await context.client.metadata.instances(kind, item_id)
        there = [one.model_dump(by_alias=True) for one in found]
        try:
            await context.metadata_writer.change(kind, item_id, there, metadata_values.at_key(key), text)
        except ValueRefused as error:
            # A retry would not help: hold it until the user decides.
            raise errors.BadRequest(400, "bad_metadata", f"metadata {key}: {error.why}") from error
