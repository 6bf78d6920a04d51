"""Deletes the rows and contents of unlinked nodes when their last reference is gone.

The kernel's lookups, open handles and pending operations reference a node.  The first two are counted in
memory only, so nodes that remain when the process dies are deleted at the next start.

Rule: call `reap_soon` whenever the last reference may be gone: after a close, a forget, the end of an
operation, a remote deletion.  Superfluous calls are harmless.
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

# Nodes deleted per transaction, which runs on the event loop: about 60 µs each.
AT_ONCE = 50

_UNLINKED = """
  SELECT n.draft, n.sha1, d.base_sha1, EXISTS (SELECT 1 FROM op WHERE op.ino = n.ino) AS is_needed
  FROM node AS n LEFT JOIN draft AS d ON d.id = n.draft WHERE n.ino = ? AND n.parent IS NULL
"""


class Reaper:
    """Deletes unlinked nodes in the background."""

    def __init__(self, context: TreeContext) -> None:
        self._db = context.db
        self._group_commit = context.group_commit
        self._blocks = context.blocks
        self._drafts = context.drafts
        self._inodes = context.inodes
        self._candidates: set[Ino] = set()
        self._wanted = Signal()

    def reap_soon(self, ino: Ino) -> None:
        """Schedule the deletion of this node, if it is unlinked and has no references."""
        if ino <= TRASH or self._inodes.is_used(ino):
            return  # called again when a reference is released
        row = self._db.row("SELECT parent FROM node WHERE ino = ?", ino)
        if row is not None and row[0] is None:
            self._candidates.add(ino)
            self._wanted.set()

    async def run(self) -> None:
        """Delete scheduled nodes until cancelled.  Cancelled: the rest is deleted at the next start."""
        while True:
            await self._wanted.wait()
            # Programs often remove many files in a row: gather them into one transaction.
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
                row = conn.execute(_UNLINKED, (ino,)).fetchone()
                if row is None:
                    continue
                if row["draft"] is not None:
                    Drafts.delete(conn, row["draft"])
                    dropped.append(row["draft"])
                # Of what is still to be deleted at the service, the row goes when that is done.
                if not row["is_needed"] and tree.discard(conn, ino):
                    contents += {sha1 for sha1 in (row["sha1"], row["base_sha1"]) if sha1 is not None}
            return dropped, sealing.drop_unneeded(conn, contents)

        dropped, contents = await self._db.write_short(txn)
        # Its bytes are kept until the deletion is durable: after a power failure the file may be back.
        for draft_id in dropped:
            self._group_commit.unlink(self._drafts.gone(draft_id))
        await self._blocks.drop_clean(*contents)
