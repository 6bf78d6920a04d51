"""Leaving a share: removes one's own collaboration; the item stays for everybody else.

A user who deletes an item from `Shared with me` does not want to see it there any more.  So the request ends
the user's own collaboration, and never deletes the item.

Rule: only a collaboration of this very account with this very item is ended.  Access through a group or a
parent folder cannot be given up here: `Forbidden`, with advice.
"""

import json
from sqlite3 import Connection
from typing import Literal

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.models.enterprise import collaborations
from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.replica.sharing import lost_access, offers, shares
from daemon.core.health import Health

NOT_OWN = (
    "it is not shared with this account directly (perhaps with a group), so you cannot leave it: "
    "ask its owner"
)

_WORDS: dict[NodeKind, Literal["file", "folder"]] = {NodeKind.FILE: "file", NodeKind.FOLDER: "folder"}


def leaves_share(conn: Connection, node: Node) -> bool:
    """Whether removing this node means to leave a share; works for detached nodes, too."""
    if node.remote_id is None or node.base_parent not in (None, wire_names.ROOT_ID):
        return False
    if shares.is_shared_node(conn, node):
        return True
    me = shares.rules(conn).me
    owner = json.loads(tree.item_at(conn, node.ino) or "{}").get("owned_by") or {}
    return me is not None and owner.get("id") not in (None, me)


async def own_collaboration(
    client: Client, health: Health, node: Node, me: str
) -> collaborations.Collaboration:
    """Return the account's own collaboration on the item.  Raises `Forbidden`, `NotFound`, `RemoteError`."""
    assert node.remote_id is not None
    if (kind := _WORDS.get(node.kind)) is not None:
        with health.request("rights"):
            async for one in client.collaborations.of(kind, node.remote_id):
                if _is_own(one, node.remote_id, me):
                    return one
    raise errors.Forbidden(403, "not_own", NOT_OWN)


async def leave(client: Client, health: Health, node: Node, me: str) -> None:
    """End the account's collaboration.  Raises the same errors as `own_collaboration`."""
    found = await own_collaboration(client, health, node, me)
    with health.request("delete"):
        await client.collaborations.delete(found.id)


def record_left(conn: Connection, node: Node, changes: list[Change]) -> None:
    """Wipe the cached data of an item after we have left it.

    Its sequence stays: shared again, it is applied as it is.
    """
    node_rows.leave_base_folder(conn, node.ino)
    lost_access.note_wipe(conn)
    offers.forget(conn, node.kind, node.remote_id or "")
    shares.remove_if_empty(conn, changes)


def _is_own(one: collaborations.Collaboration, item_id: str, me: str) -> bool:
    whose, item = one.accessible_by, one.item or {}
    return (
        whose is not None
        and (whose.type, whose.id) == ("user", me)
        and one.status == collaborations.ACCEPTED
        and item.get("id") == item_id
    )
