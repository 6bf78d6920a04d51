"""A drive without kernel and network: real replica, cache and journal, with a fake service."""

import errno
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio

from cmsfs.cache.blocks import BLOCK, BlockCache
from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal.draft import Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.journal.sealing import Sealer
from cmsfs.models.content import items
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import apply_remote, deletions
from cmsfs.replica.nodes import ROOT, Content, Ino, Node, NodeKind, remote_from_item
from cmsfs.sqlite import Connection, Database
from cmsfs.vfs import permissions
from cmsfs.vfs.tree.filesystem import Filesystem


class Shelf:
    """Implements the ports of the vfs: serves bytes by SHA-1, and counts requests."""

    def __init__(self, db: Database, blocks: BlockCache) -> None:
        self._db = db
        self._blocks = blocks
        self.bytes: dict[str, bytes] = {}
        self.fetched: list[tuple[str, int, int]] = []
        self.listed: list[Ino] = []
        self.woken = 0
        self.doubted = 0
        self.account_space = (1 << 30, 1 << 20)
        self.largest: int | None = None
        self.is_online = True
        self.is_read_only = False

    async def listing(self, folder: Ino) -> None:
        self.listed.append(folder)
        await self._db.write(lambda conn: tree.mark_listed(conn, folder, at=0))

    async def blocks(self, content: Content, first: int, last: int) -> None:
        self.fetched.append((content.sha1, first, last))
        if content.remote_id is None or content.sha1 not in self.bytes:
            raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))
        data = self.bytes[content.sha1]
        for index in range(first, last + 1):
            piece = data[index * BLOCK : (index + 1) * BLOCK]
            await self._blocks.write_blocks(content.sha1, content.size, index, piece)

    def began(self, ino: Ino, content: Content) -> None:
        """Ignore prefetch hints."""

    def ahead(self, content: Content, first: int, last: int, *, kept: bool = False) -> None:
        pass

    def wake(self) -> None:
        self.woken += 1

    @property
    def rights(self) -> "Shelf":
        return self

    def on(self, node: Node) -> permissions.NodeRight:
        return permissions.ALL

    def reason(self, node: Node) -> str | None:
        return None

    async def learn(self, node: Node) -> permissions.NodeRight:
        return self.on(node)

    def space(self) -> tuple[int, int] | None:
        return self.account_space

    @property
    def largest_file(self) -> int | None:
        return self.largest

    def doubt_space(self) -> None:
        self.doubted += 1


class Drive:
    """A file system with all layers below it, and short calls for the service's side."""

    def __init__(self, db: Database, root: Path, *, exclude: Sequence[str] = ()) -> None:
        self.db = db
        (root / "drafts").mkdir()
        self.blocks = BlockCache(
            db, root / "blocks", root / "drafts", limit_bytes=1 << 30, keep_free_bytes=1 << 20
        )
        self.drafts = Drafts(db, root / "drafts")
        self.commit = GroupCommit(db, root / "drafts")
        self.shelf = Shelf(db, self.blocks)
        self.reserve = DiskReserve(root)
        db.has_much_room = self.reserve.is_roomy
        self.fs = Filesystem(
            *(db, self.blocks, self.drafts, self.commit, self.shelf, self.shelf, self.shelf),
            settle_seconds=0,
            reserve=self.reserve,
            exclude=exclude,
        )
        self.sealer = Sealer(self.drafts, self.blocks, self.shelf, self.commit)
        self._sequence = 0

    def _item(self, number: int, name: str, data: bytes, parent: int) -> items.File:
        self._sequence += 1
        sha1 = hashlib.sha1(data).hexdigest()
        self.shelf.bytes[sha1] = data
        return items.File.model_validate(
            {
                "id": str(number),
                "name": name,
                "sha1": sha1,
                "size": len(data),
                "etag": str(self._sequence),
                "sequence_id": str(self._sequence),
                "parent": {"type": "folder", "id": str(parent)},
                "item_status": "active",
                "file_version": {"type": "file_version", "id": f"v{self._sequence}", "sha1": sha1},
                "modified_at": "2026-01-02T03:04:05+00:00",
            }
        )

    async def remote_file(self, number: int, name: str, data: bytes, *, parent: int = 0) -> Ino:
        """Apply a remote file."""
        item = self._item(number, name, data, parent)

        def txn(conn: Connection) -> Ino:
            apply_remote.apply(conn, [remote_from_item(item)], generation=kv_store.generation(conn))
            node = tree.remote_at(conn, remote_from_item(item).kind, str(number))
            assert node is not None
            return node.ino

        return await self.db.write(txn)

    async def uploaded(self, ino: Ino, number: int, data: bytes) -> None:
        """Complete the upload of a node's sealed bytes: apply the service's response."""
        answer = remote_from_item(self._item(number, tree.path(self.db, ino)[1:], data, 0))

        def txn(conn: Connection) -> None:
            apply_remote.adopt(conn, ino, answer)
            conn.execute("DELETE FROM op WHERE ino = ?", (ino,))

        await self.db.write(txn)

    async def remote_folder(self, number: int, name: str, *, parent: int = 0) -> Ino:
        """Apply a remote folder."""
        self._sequence += 1
        item = items.Folder.model_validate(
            {
                "id": str(number),
                "name": name,
                "etag": str(self._sequence),
                "sequence_id": str(self._sequence),
                "parent": {"type": "folder", "id": str(parent)},
                "item_status": "active",
            }
        )

        def txn(conn: Connection) -> Ino:
            apply_remote.apply(conn, [remote_from_item(item)], generation=kv_store.generation(conn))
            node = tree.remote_at(conn, NodeKind.FOLDER, str(number))
            assert node is not None
            tree.mark_listed(conn, node.ino, at=0)
            return node.ino

        return await self.db.write(txn)

    async def gone(self, ino: Ino) -> None:
        """Apply a remote deletion, with everything below it."""
        await self.db.write(lambda conn: deletions.remove_gone(conn, ino))

    async def write_file(self, name: str, data: bytes, *, parent: Ino = ROOT) -> Ino:
        """Create a file as a program does."""
        opened, made = await self.fs.create(parent, name, 0o644, os.O_WRONLY)
        await self.fs.write(opened.fh, 0, data)
        await self.fs.flush(opened.fh)
        await self.fs.release(opened.fh)
        return made.ino

    async def read_file(self, name: str, *, parent: Ino = ROOT) -> bytes:
        found = await self.fs.lookup(parent, name)
        opened = await self.fs.open(found.ino, os.O_RDONLY)
        try:
            return bytes(await self.fs.read(opened.fh, 0, found.size + 1))
        finally:
            await self.fs.release(opened.fh)

    async def seal(self, ino: Ino) -> None:
        """Seal a draft as the push does before an upload."""
        node = tree.find(self.db, ino)
        assert node is not None
        assert node.draft is not None
        draft = self.drafts.find(node.draft)
        assert draft is not None
        assert await self.sealer.seal(draft) is not None

    def draft_of(self, ino: Ino) -> Draft:
        node = tree.find(self.db, ino)
        assert node is not None
        assert node.draft is not None
        draft = self.drafts.find(node.draft)
        assert draft is not None
        return draft

    async def seal_open(self, ino: Ino) -> None:
        """As `seal`, while it is open for writing."""
        assert await self.sealer.seal(self.draft_of(ino), while_open=lambda: True) is not None

    def ops(self) -> list[tuple[str, str]]:
        """Return the pending operations: (kind, path or last name)."""
        rows = self.db.rows("SELECT kind, ino FROM op ORDER BY seq")
        return [(row["kind"], tree.path(self.db, row["ino"])) for row in rows]

    def names(self, parent: Ino = ROOT) -> list[str]:
        return sorted(node.name for node in tree.children(self.db, parent))


@pytest.fixture
def exclude() -> Sequence[str]:
    """The folders that are hidden."""
    return ()


@pytest.fixture
async def drive(
    db: Database, tmp_path: Path, nursery: trio.Nursery, exclude: Sequence[str]
) -> AsyncIterator[Drive]:
    made = Drive(db, tmp_path, exclude=exclude)
    await made.blocks.recover(clean_shutdown=True, same_boot=True)
    await db.write(lambda conn: tree.mark_listed(conn, ROOT, at=0))
    nursery.start_soon(made.fs.run)
    yield made
    made.drafts.close()
    await made.blocks.aclose()
