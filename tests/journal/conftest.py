"""Drafts, with the journal, cache and database below them."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cmsfs.cache.blocks import BlockCache
from cmsfs.journal import ops, recovery
from cmsfs.journal.draft import Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.journal.sealing import Sealer
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Content, Ino, NodeKind
from cmsfs.sqlite import Connection, Database


class Nowhere:
    """A service that cannot be reached."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))


class Desk:
    """Drafts with the layers below them."""

    def __init__(self, db: Database, root: Path) -> None:
        self.db = db
        self.root = root / "drafts"
        self.recovered = root / "recovered"
        for folder in (self.root, self.recovered):
            folder.mkdir(exist_ok=True)
        self.blocks = BlockCache(db, root / "blocks", self.root, limit_bytes=1 << 30, keep_free_bytes=1 << 20)
        self.drafts = Drafts(db, self.root)
        self.commit = GroupCommit(db, self.root)
        self.sealer = Sealer(self.drafts, self.blocks, Nowhere(), self.commit)

    async def new(self, name: str, data: bytes, *, base: tuple[str, int] | None = None) -> Draft:
        def txn(conn: Connection) -> tuple[Ino, int]:
            ino = tree.insert(conn, ROOT, name, NodeKind.FILE, now_ns=0)
            ops.record(conn, ino, ops.OpKind.UPLOAD, due_ns=0)
            return ino, Drafts.insert(conn, ino, base)

        ino, draft_id = await self.db.write(txn)
        draft = self.drafts.started(draft_id, ino, base)
        await draft.write(0, data)
        draft.recorded(await self.db.write(draft.record))
        return draft

    async def restarted(self) -> "Desk":
        """Open the same folders as a new process would, after recovery."""
        self.drafts.close()
        await self.blocks.aclose()
        desk = Desk(self.db, self.root.parent)
        await recovery.recover(desk.db, desk.drafts, desk.recovered)
        await desk.blocks.recover(clean_shutdown=False, same_boot=True)
        return desk

    async def bytes_of(self, name: str) -> bytes:
        node = tree.find_child(self.db, ROOT, name)
        assert node is not None
        if node.draft is not None:
            draft = self.drafts.find(node.draft)
            assert draft is not None
            return b"".join(
                draft.read_held(start, end) if where == "draft" else bytes(end - start)
                for start, end, where in draft.pieces(0, draft.size)
            )
        assert node.sha1 is not None
        return bytes(await self.blocks.read(Content(node.sha1, node.size, None, None), 0, node.size))


@pytest.fixture
async def desk(db: Database, tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(db, tmp_path)
    await made.blocks.recover(clean_shutdown=True, same_boot=True)
    yield made
    made.drafts.close()
    await made.blocks.aclose()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fsyncs, by name of the file, and links of files, in order."""
    found: list[str] = []
    fsync, link = os.fsync, os.link

    def watch_fsync(fd: int) -> None:
        found.append(f"fsync {Path(f'/proc/self/fd/{fd}').readlink().name}")
        fsync(fd)

    def watch_link(source: Path, target: Path) -> None:
        found.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "link", watch_link)
    return found
