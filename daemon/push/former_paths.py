"""Paths of items that were deleted here and that the service still has."""

from collections.abc import Callable
from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.sqlite import Database

# Deeper than any tree: folders moved into each other on both sides must not loop forever.
_DEEPEST = 500


def of(db: Database, node: Node) -> str:
    """Return the path of a node on the drive; for a deleted one its former path, as far as known."""
    return _path(
        node, lambda ino: tree.find(db, ino), lambda number: tree.find_remote(db, NodeKind.FOLDER, number)
    )


def at(conn: Connection, node: Node) -> str:
    """Like `of`, within a transaction."""
    return _path(
        node,
        lambda ino: tree.find_at(conn, ino),
        lambda number: tree.remote_at(conn, NodeKind.FOLDER, number),
    )


def _path(node: Node, find: Callable[[Ino], Node | None], folder: Callable[[str], Node | None]) -> str:
    names: list[str] = []
    here: Node | None = node
    while here is not None and len(names) < _DEEPEST:
        if here.parent is not None:
            names.append(here.name)
            here = find(here.parent)
        elif here.base_parent is not None:
            names.append(here.base_name or here.name)
            here = folder(here.base_parent)
        else:
            break
    return "/" + "/".join(reversed(names))
