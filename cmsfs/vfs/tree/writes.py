"""Writes to open files: creates, writes, truncates and records drafts.

`FileIO` opens and closes the files.  Writes go to the file's draft and wait only for the local disk.

Rule: when `flush` returns, the data is recorded: it survives the death of this process at once, and a power
failure after about a second (group commit).
"""

from collections.abc import Awaitable, Callable, MutableMapping
from sqlite3 import Connection

from cmsfs import crashpoints
from cmsfs.cache.blocks import BLOCK
from cmsfs.cache.eviction import BASE_BYTES
from cmsfs.crashpoints import Point
from cmsfs.journal import ops
from cmsfs.journal.draft import ROW_BYTES, Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import lineages
from cmsfs.replica.nodes import Content, Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs.tree import weblinks
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.vfs.tree.handles import Handles, OpenFile, PageVersion

# An upload that nobody has begun, and that is due only so much earlier, is not recorded once more: most
# files are closed within this time after they were made.
MOMENT_NS = 10**8

# A file's folder, whether it is local-only, and when its upload is due if it is ready and was never tried.
_PLACE_AND_DUE = """
  SELECT n.parent, n.local, o.not_before FROM node AS n LEFT JOIN op AS o
    ON o.ino = n.ino AND o.kind = 'upload' AND o.state = 'ready' AND o.attempts = 0 AND o.error IS NULL
  WHERE n.ino = ?
"""


class FileWriter:
    """Writes to the drafts of open files, and records them."""

    def __init__(
        self,
        context: TreeContext,
        handles: Handles,
        *,
        pages: MutableMapping[Ino, PageVersion],
        read_content: Callable[[Content, int, int], Awaitable[bytes | bytearray]],
    ) -> None:
        self._db, self._folder = context.db, context.folder
        self._drafts = context.drafts
        self._group_commit = context.group_commit
        self._hydrator = context.hydrator
        self._push = context.push
        self._quota = context.quota
        self._settle_seconds = context.settle_seconds
        self._publish = context.publish
        self._handles = handles
        self._pages = pages
        self._read_content = read_content

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        """Write bytes at an offset; return their number."""
        handle = self._handles.file(fh)
        self._quota.check_disk(len(data))
        if offset + len(data) > ROW_BYTES:
            self._db.settle()  # the number of a draft that has a file must not be given to another one
        while True:
            draft = await self._draft_of(handle.file)
            if not handle.appends:
                self._drafts.appended.pop(draft.ino, None)
            self._quota.take(draft.size, offset + len(data))
            if (written := await draft.write(offset, data)) is not None:
                return written

    async def cut(self, file: OpenFile, size: int) -> None:
        """Set the length of an open file and record it; the file counts as open for writing meanwhile."""
        file.opened(writable=True)
        try:
            if not size and await self._begin_empty(file):
                return
            while True:
                draft = await self._draft_of(file, keep_base=size > 0)
                self._drafts.appended.pop(file.ino, None)
                self._quota.take(draft.size, size)
                if await draft.truncate(size):
                    break
            await self.record(file)
        finally:
            file.closed(writable=True)
            if not file.writers:
                self._push.wake()

    async def fsync(self, fh: int) -> None:
        """Return when the written data is on the disk."""
        handle = self._handles.file(fh)
        await self.record(handle.file)
        await self._group_commit.sync(handle.file.draft)

    async def record(self, file: OpenFile) -> None:
        """Record the written data: it survives this process at once, a power failure soon."""
        draft = file.draft
        if draft is None or draft.recorded_to >= (generation := draft.generation) or draft.dropped:
            self._db.settle()  # the file may be new
            return
        due = clock.time_ns() + self._drafts.debounce_ns(draft, self._settle_seconds)

        def txn(conn: Connection) -> tuple[int, list[Change], int | None]:
            began: int | None = self._db.ended
            generation, changes = draft.record(conn), list[Change]()
            row = conn.execute(_PLACE_AND_DUE, (draft.ino,)).fetchone()
            parent, local, recorded_due = row if row is not None else (None, 0, None)
            if parent is None and lineages.is_displaced(conn, draft.ino):
                lineages.name_displaced(conn, draft.ino, changes)
                began = None
                parent = tree.parent_at(conn, draft.ino)
            is_due = recorded_due is not None and 0 <= due - recorded_due < MOMENT_NS
            if parent is not None and not (is_due or local):
                ops.record(conn, draft.ino, ops.OpKind.UPLOAD, due_ns=due)
            return generation, changes, began

        while True:
            recorded, changes, began = await self._db.write_short(txn)
            if began is not None:
                self._folder.keep(began, draft.ino, 0)
            draft.recorded(recorded)
            if changes:
                self._publish(changes)
            if draft.recorded_to >= generation:
                break
            # The data was held in the row and has outgrown it.
            await self._group_commit.sync_file(draft)
        crashpoints.reached(Point.CLOSE_RECORDED)
        self._group_commit.note(draft)
        self._drafts.hashes.rests(draft)

    # ---- drafts ----

    async def _draft_of(self, file: OpenFile, *, keep_base: bool = True) -> Draft:
        """Return the file's draft; if it has none, create one based on its content."""
        while True:
            if (draft := file.draft) is not None:
                if not draft.sealed:
                    return draft
                await draft.replaced.wait()
                continue
            async with file.drafting:
                if file.draft is None and not await self._make_draft(file, keep_base=keep_base):
                    await self._make_link_draft(file, keep_base=keep_base)

    async def _begin_empty(self, file: OpenFile) -> bool:
        """Create an empty draft for a file without one; return whether it was created, already recorded."""
        if file.draft is not None:
            return False
        async with file.drafting:
            if file.draft is not None or not await self._make_draft(file, keep_base=False):
                return False
        self._drafts.appended.pop(file.ino, None)
        self._group_commit.note(file.draft)
        return True

    async def _make_draft(self, file: OpenFile, *, keep_base: bool) -> bool:
        """Create a draft based on the file's content, or on nothing; return False, without a change, for a
        web link."""
        content, now = file.content, clock.time_ns()
        base = (content.sha1, content.size) if content is not None and content.size and keep_base else None
        due = now + int(self._settle_seconds * 10**9)

        def txn(conn: Connection) -> tuple[int, str | None, list[Change]] | None:
            node, changes = tree.get(conn, file.ino), list[Change]()
            if file.text is not None or (node.kind is NodeKind.LINK and weblinks.is_shown(node)):
                return None
            draft_id = Drafts.insert(conn, file.ino, base, cut_ns=None if keep_base else now)
            # An empty draft is a change, and already recorded; any other is one once it is written to.
            is_named = not keep_base and node.parent is None and lineages.is_displaced(conn, file.ino)
            if is_named:
                lineages.name_displaced(conn, file.ino, changes)
            if is_named or node.parent is not None:
                ops.record(conn, file.ino, ops.OpKind.UPLOAD, due_ns=due)
                ops.drop(conn, file.ino, ops.OpKind.TOUCH)
            return draft_id, node.base_sha1, changes

        made = await self._db.write_short(txn)
        if made is None:
            return False
        draft_id, base_sha1, changes = made
        if content is not None and content.sha1 == base_sha1:
            self._drafts.appended[file.ino] = content  # until a write that does not append
        draft = self._drafts.started(draft_id, file.ino, base)
        if not keep_base:
            draft.mtime_ns = now
        if content is not None and base is not None and content.size <= BASE_BYTES:
            # Download the base now: it is uploaded with the rest, and may be gone at the service by then.
            self._hydrator.ahead(content, 0, (content.size - 1) // BLOCK, kept=True)
        file.wrote(draft)
        self._pages[file.ino] = draft.version
        if changes:
            self._publish(changes)
        return True

    async def _make_link_draft(self, file: OpenFile, *, keep_base: bool) -> None:
        """Create a draft of the text of an open web link, which may have been a file when it was opened."""
        seen, content = file.text, file.content
        if seen is None:
            seen = bytes(await self._read_content(content, 0, content.size)) if content is not None else b""
        text = seen if keep_base else b""
        due = clock.time_ns() + int(self._settle_seconds * 10**9)

        def txn(conn: Connection) -> int:
            return weblinks.begin_draft(conn, self._drafts, file.ino, seen, text, due_ns=due)

        draft = self._drafts.find(await self._db.write(txn))
        assert draft is not None
        file.wrote(draft)
        self._pages[file.ino] = draft.version
