"""Resolves a drive path that a person typed to a node.

Rule: nothing is counted as a look-up: the kernel knows nothing of this.
"""

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Node
from cmsfs.sqlite import Database
from daemon.fetch.hydrate import Hydrator


async def find(db: Database, hydrator: Hydrator, path: str) -> Node:
    """The node at a path from the top of the drive; folders on the way that are not known are listed.

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
