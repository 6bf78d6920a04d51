"""Determines the path on the drive of an item that a search at the service found.

The replica is asked first: it knows recent local renames and deletions.  An unknown item is placed by the
parent folders that the service returns.
"""

from cmsfs.models.content import items
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT, Node, NodeKind, remote_from_item
from cmsfs.replica.sharing import offers, shares
from cmsfs.sqlite import Database
from cmsfs.vfs.virtual.search_results import Match

# Fields that are needed to place an item.
FIELDS = ["name", "parent", "owned_by", "path_collection", "created_at", "modified_at", "content_modified_at"]


class MatchPlaces:
    """Places items in the tree."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._root = tree.root_id(db)

    def is_gone(self, match: Match) -> bool:
        """Whether the item is not on the drive any more: a folder of its path is listed and has no entry of
        that name."""
        ino = ROOT
        for name in match.path.split("/"):
            node = tree.find_child(self._db, ino, name)
            if node is None:
                return tree.is_listed(self._db, ino)
            ino = node.ino
        return False

    def of(self, item: items.Item) -> Match | None:
        """Return the place of an item; None: not on this drive."""
        remote = remote_from_item(item)
        node = tree.find_remote(self._db, remote.kind, remote.id)
        if node is not None:
            path = self._path(node)
            size = node.size if node.kind is NodeKind.FILE else None
            return None if path is None else Match(remote.kind, remote.id, path, node.mtime_ns, size)
        folder = self._folder_of(item)
        if folder is None:
            return None
        is_shared = shares.is_shared(shares.rules_of(self._db), remote)
        path = "/".join([*folder, naming.file_name(remote.kind, remote.name, foreign=is_shared)])
        size = remote.size if remote.kind is NodeKind.FILE else None
        return Match(remote.kind, remote.id, path, remote.mtime_ns, size)

    def _path(self, node: Node) -> str | None:
        """Return the path of a known item; None: deleted here, or the root itself."""
        path = tree.path(self._db, node.ino)
        return path[1:] if path.startswith("/") and node.ino != ROOT else None

    def _folder_of(self, item: items.Item) -> list[str] | None:
        """Return the path of the item's folder; None: not below the root of the drive."""
        found = shares.rules_of(self._db)
        if item.parent is not None and not shares.is_shared(found, remote_from_item(item)):
            parent = tree.find_remote(self._db, NodeKind.FOLDER, item.parent.id)
            if parent is not None:
                path = tree.path(self._db, parent.ino)
                return [name for name in path.split("/") if name] if path.startswith("/") else None
        above = item.path_collection.entries if item.path_collection is not None else []
        ids = [folder.id for folder in above]
        if self._root not in ids:
            return None
        below = above[ids.index(self._root) + 1 :]
        if found.asks and self._is_offered(found, item, below[0].id if below else None):
            return None
        shelf = self._shelf(found, item)
        return [*shelf, *(naming.file_name(NodeKind.FOLDER, folder.name or folder.id) for folder in below)]

    def _is_offered(self, found: shares.Rules, item: items.Item, top: str | None) -> bool:
        """Whether the item is in a share that the user has not accepted."""
        owner = item.owned_by.id if item.owned_by is not None else None
        if found.me is None or owner in (None, found.me):
            return False
        kind, item_id = (NodeKind(item.type), item.id) if top is None else (NodeKind.FOLDER, top)
        node = tree.find_remote(self._db, kind, item_id)
        is_here = node is not None and node.parent is not None
        return not is_here and not offers.is_accepted(self._db, kind, item_id)

    def _shelf(self, found: shares.Rules, item: items.Item) -> list[str]:
        """Return the folder for items that others share."""
        owner = item.owned_by.id if item.owned_by is not None else None
        if found.in_root or found.me is None or owner in (None, found.me):
            return []
        known = self._db.row("SELECT name FROM node WHERE local AND local = 2 AND +parent IS NOT NULL")
        return [known["name"] if known is not None else shares.NAME]
