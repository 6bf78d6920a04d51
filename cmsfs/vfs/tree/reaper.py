"""Deletes rows and bytes of unlinked nodes when their last reference is gone.

A node is held by the kernel's lookups, by open handles and by operations that are still to be sent.  The
first two are counted in memory only, so what is left when the process dies is removed at the next start.

Rule: asked after whatever may have been the last hold: a close, the kernel's forgetting, the end of an
operation, news of a deletion.  Asking too often is harmless.
"""

from sqlite3 import Connection

import trio

from cmsfs.journal import sealing
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import tree
from cmsfs.replica.nodes import TRASH, Ino
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.wakeup import Signal

GATHER_SECONDS = 0.05

# Nodes deleted in one transaction, on the loop: some 60 µs each.
AT_ONCE = 50


class Reaper:
    """Deletes unlinked nodes behind the calls that let go of them."""

    def __init__(self, context: TreeContext) -> None:
        self._db = context.db
        self._group_commit = context.group_commit
        self._blocks = context.blocks
        self._drafts = context.drafts
        self._inodes = context.inodes
        self._candidates: set[Ino] = set()
        self._wanted = Signal()

    def reap_soon(self, ino: Ino) -> None:
        """Delete this node soon, if it is unlinked and nobody holds it."""
        if ino <= TRASH or self._inodes.is_used(ino):
            return  # whoever lets go of it asks again
        node = tree.find(self._db, ino)
        if node is not None and node.parent is None:
            self._candidates.add(ino)
            self._wanted.set()

    async def run(self) -> None:
        """Delete for ever.  Cancelled: what was to go is deleted at the next start."""
        while True:
            await self._wanted.wait()
            # Programs that remove one file after another: a transaction for many of them.
            await trio.sleep(GATHER_SECONDS)
            self._wanted.clear()
            while self._candidates:
                # atomic: no await until they are taken
                considered = {self._candidates.pop() for _ in range(min(AT_ONCE, len(self._candidates)))}
                try:
                    if unused := {ino for ino in considered if not self._inodes.is_used(ino)}:
                        await self._delete(unused)
                except BaseException:
                    self._candidates |= considered
                    self._wanted.set()
                    raise

    async def _delete(self, inos: set[Ino]) -> None:
        def txn(conn: Connection) -> tuple[list[int], list[str]]:
            dropped: list[int] = []
            contents: list[str] = []
            for ino in inos:
                row = conn.execute(
                    "SELECT n.draft, n.sha1, d.base_sha1 FROM node n LEFT JOIN draft d ON d.id = n.draft"
                    " WHERE n.ino = ? AND n.parent IS NULL",
                    (ino,),
                ).fetchone()
                if row is None:
                    continue
                if row["draft"] is not None:
                    Drafts.delete(conn, row["draft"])
                    dropped.append(row["draft"])
                if tree.discard(conn, ino):
                    contents += {sha1 for sha1 in (row["sha1"], row["base_sha1"]) if sha1 is not None}
            return dropped, sealing.drop_unneeded(conn, contents)

        dropped, contents = await self._db.write_short(txn)
        # Until the deletion is on the disk, the bytes are: the power may fail, and the file be back.
        for draft_id in dropped:
            self._group_commit.unlink(self._drafts.gone(draft_id))
        if contents:
            await self._group_commit.sync(None)
        for sha1 in contents:
            await self._blocks.drop_clean(sha1)
