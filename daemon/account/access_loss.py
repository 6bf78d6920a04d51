"""Before an item that is no longer shared is removed, checks whether parts of it are visible elsewhere.

A folder inside it may be shared with us separately.  Then the service shows it in the root from now on, and
it is moved there, with its pending changes, before the rest is removed.
"""

import logging
from collections.abc import Sequence
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.models.content import entries, items
from cmsfs.replica import tree
from cmsfs.replica.nodes import KINDS, Ino
from cmsfs.replica.sharing import shares
from cmsfs.sqlite import Database
from daemon.core.health import Health
from daemon.core.remote_updates import RemovedItem

log = logging.getLogger(__name__)

Item = items.Item | entries.Entry


async def still_visible(
    db: Database, client: Client, health: Health, gone: Sequence[RemovedItem]
) -> list[Item]:
    """Return those of these items, and of the local items below them, that the service shows in the root."""
    tops = await db.query(lambda conn: _shared(conn, gone))
    if not tops:
        return []
    found: list[Item] = []
    try:
        with health.request("listing"):
            async for item in client.folders.items(wire_names.ROOT_ID):
                found.append(item)
    except (errors.NotFound, errors.Forbidden, errors.BadRequest) as error:
        # Without folder listings, the next full comparison finds them.
        log.info("shared items could not be listed: %s", error)
        return []
    return await db.query(lambda conn: [item for item in found if _is_below(conn, item, tops)])


def _shared(conn: Connection, gone: Sequence[RemovedItem]) -> list[Ino]:
    nodes = (tree.remote_at(conn, one.kind, one.id) for one in gone)
    return [node.ino for node in nodes if node is not None and shares.is_shared_node(conn, node)]


def _is_below(conn: Connection, item: Item, tops: Sequence[Ino]) -> bool:
    node = tree.remote_at(conn, KINDS[item.type], item.id)
    return node is not None and any(tree.is_below(conn, node.ino, top) for top in tops)
