"""Moves shared items in the tree after the rules for their place and name have changed.

The rules change when the drive's owner becomes known, when a setting is changed, and with a version of cmsfs
that reserves other names.
"""

import json
from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.models.content import entries
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import apply_remote, deletions, placement
from cmsfs.replica.nodes import ROOT, Node, Remote
from cmsfs.replica.sharing import offers, shares

_CANDIDATES = """
  SELECT ino, json_extract(item, '$.owned_by.id') AS owner FROM node
  WHERE remote_id IS NOT NULL AND parent IS NOT NULL AND base_name IS NOT NULL AND ino > 2
    AND (base_parent = ?1 OR base_key LIKE ?2)
"""


def configure(conn: Connection, wanted: shares.Rules) -> list[Change]:
    """Set the rules and move items accordingly; return the changes."""
    changes: list[Change] = []
    before = shares.rules(conn)
    if not shares.keep(conn, wanted):
        return changes
    rows = conn.execute(_CANDIDATES, (wire_names.ROOT_ID, f"%{naming.VERSIONS_SUFFIX}")).fetchall()
    for row in rows:
        node = tree.get(conn, row["ino"])
        if wanted.asks and not before.asks and shares.is_shared(wanted, _remote(node, row["owner"])):
            _ask(conn, before, node, _remote(node, row["owner"]), changes)
            if tree.get(conn, node.ino).parent is None:
                continue
        if _is_misplaced(conn, wanted, node, row["owner"]):
            apply_remote.place_from_remote(conn, node, _remote(node, row["owner"]), changes)
    if before.asks and not wanted.asks:
        # Items that were not accepted have no node: the next listing of the root brings them.
        offers.forget_all(conn)
        tree.mark_unlisted(conn, ROOT)
    shares.remove_if_empty(conn, changes)
    return changes


def begin(conn: Connection) -> list[Change]:
    """At the start of the drive, restore names that were kept for removed items; return the changes."""
    changes: list[Change] = []
    placement.restore_all_names(conn, changes)
    return changes


def _ask(conn: Connection, before: shares.Rules, node: Node, found: Remote, changes: list[Change]) -> None:
    """Switch to asking the user: shared items already shown count as accepted; those that came before the
    drive's owner was known are removed until the user accepts them."""
    known = tree.item_at(conn, node.ino)
    state = offers.OfferState.ACCEPTED if before.me is not None else offers.OfferState.WAITING
    offer = offers.offered(found, state)
    if known is not None and (whose := json.loads(known).get("owned_by")):
        offer = offer.model_copy(update={"owner": str(whose.get("name") or whose.get("login") or "")})
    if state is offers.OfferState.WAITING:
        changes += deletions.remove_gone(conn, node.ino)
    offers.put(conn, offer)


def _is_misplaced(conn: Connection, wanted: shares.Rules, node: Node, owner: str | None) -> bool:
    assert node.parent is not None
    there = tree.get(conn, node.parent)
    found = _remote(node, owner)
    on_shelf = shares.is_shared(wanted, found) and not wanted.in_root
    if on_shelf != there.is_shelf:
        return True
    return node.parent == ROOT or naming.is_reserved(node.name, at_root=False)


def _remote(node: Node, owner: str | None) -> Remote:
    """Return the node's place as last reported by the service."""
    assert node.remote_id is not None
    assert node.base_name is not None
    return Remote(
        kind=node.kind,
        id=node.remote_id,
        name=node.base_name,
        parent_id=node.base_parent,
        parent_name="",
        etag=node.etag,
        sequence=node.sequence,
        version=node.version,
        sha1=node.base_sha1,
        size=node.size,
        mtime_ns=node.mtime_ns,
        trashed=False,
        item=entries.Entry.of(
            {
                "type": node.kind.value,
                "id": node.remote_id,
                "owned_by": {"id": owner} if owner is not None else None,
            }
        ),
    )
