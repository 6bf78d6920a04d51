"""Resolves a drive path that a user typed to a node.

Rule: this is no FUSE lookup, so the kernel's lookup counts stay as they are.
"""

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Node
from cmsfs.sqlite import Database
from daemon.fetch.hydrate import Hydrator


async def find(db: Database, hydrator: Hydrator, path: str) -> Node:
    """Return the node at a path from the root of the drive; lists unlisted folders on the way.

    Raises `UserError`.
    """
    node = tree.find(db, ROOT)
    assert node is not None
    for name in path.split("/"):
        if not name:
            continue
        child = tree.find_child(db, node.ino, name)
        if child is None and node.is_folder and not tree.is_listed(db, node.ino):
            try:
                await hydrator.listing(node.ino)
            except OSError as error:
                raise errors.UserError(f"{path} could not be looked up: {error.strerror}.") from error
            child = tree.find_child(db, node.ino, name)
        if child is None:
            raise errors.UserError(f"There is no {path} on the drive, from its top.")
        node = child
    return node
