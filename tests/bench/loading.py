"""Fills a service's data with trees for benchmarks, using the service's own functions, without a server.

Files have no bytes: what is measured with them are names and attributes.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cmsfs.service.content import items
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.sqlite import Connection

EMPTY = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

# Folders per transaction.
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder of folders with so many files each; no folders: the files are in it.  `ids`: its folders'."""

    name: str
    folders: int
    files: int
    ids: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the number of items."""
        return 1 + (self.folders * (self.files + 1) if self.folders else self.files)


async def fill(data: Path, trees: list[Tree]) -> dict[str, str]:
    """Create trees in the root of the sample user's account; return the credentials."""
    async with store.open_store(data) as opened:
        credentials = await demo.ensure_sample(opened)
        user = int(credentials.user_id)
        # Long ago, since recent items are part of every poll for changes.
        now = opened.now() - 90 * 86_400 * 10**6
        for tree in trees:
            await opened.write(_top(tree, user, now))
            for first in range(0, max(tree.folders, 1), _AT_ONCE):
                await opened.write(_some(tree, user, now, first))
        return asdict(credentials)


def _top(tree: Tree, user: int, now: int) -> Callable[[Connection], None]:
    def txn(conn: Connection) -> None:
        owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        new = items.New(ItemKind.FOLDER, tree.name)
        row = items.insert(conn, items.find(conn, owner["root"]), new, by=user, now=now)
        tree.ids.append(str(row["id"]))

    return txn


def _some(tree: Tree, user: int, now: int, first: int) -> Callable[[Connection], None]:
    """Create a part of a tree, each item a little later than the one before."""

    def txn(conn: Connection) -> None:
        above = items.find(conn, int(tree.ids[0]))
        for number in range(first, min(first + _AT_ONCE, max(tree.folders, 1))):
            folder, at = above, now + number * 10**6
            if tree.folders:
                new = items.New(ItemKind.FOLDER, f"folder {number:05}")
                folder = items.insert(conn, above, new, by=user, now=at, event=None)
                tree.ids.append(str(folder["id"]))
            for one in range(tree.files):
                new = items.New(ItemKind.FILE, f"document {one:05}.txt", 0, EMPTY)
                items.insert(conn, folder, new, by=user, now=at + one, event=None)

    return txn
