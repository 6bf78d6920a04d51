"""Open files: opening, reading, closing.

`Filesystem` resolves names and passes inodes to this module; both share one `Inodes`.  Reads come from the
block cache or the draft and wait only for the hydrator.  `FileWriter` handles writes.

Rule: an inode is counted as open before its row is read, so that remote changes do not replace the contents
of an open file.
"""

import errno
import logging
import os
from base64 import b64decode, b64encode
from typing import Any

from cmsfs import errors
from cmsfs.journal.draft import Draft, DraftVersion
from cmsfs.replica import link_texts, tree
from cmsfs.replica.merge import lineages
from cmsfs.replica.nodes import Content, Ino, Node, NodeKind
from cmsfs.replica.rows import past_versions
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree import weblinks
from cmsfs.vfs.tree.attributes import OpenResult
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.vfs.tree.dir_snapshots import Snapshots
from cmsfs.vfs.tree.handles import Handles, OpenFile, PageVersion
from cmsfs.vfs.tree.reaper import Reaper
from cmsfs.vfs.tree.writes import FileWriter

log = logging.getLogger(__name__)

# The result of a read; nobody modifies it, so it is not copied.
Bytes = bytes | bytearray

# Differs from all versions, including that of a file without contents (None).
_NO_VERSION = object()


class FileIO:
    """Reads and writes of file contents."""

    def __init__(self, context: TreeContext, handles: Handles, reaper: Reaper, listings: Snapshots) -> None:
        self._db, self._folder = context.db, context.folder
        self._blocks = context.blocks
        self._drafts = context.drafts
        self._hydrator = context.hydrator
        self._push = context.push
        self._inodes = context.inodes
        self._handles = handles
        self._reaper = reaper
        self._listings = listings
        self._open: dict[Ino, OpenFile] = {}
        # Inodes that were opened again after ESTALE, which made the kernel look up their names.
        self._reopened_stale: set[Ino] = set()
        # The versions of the pages in the kernel's cache.
        self._pages: dict[Ino, PageVersion] = {}
        # Operations that only write are in `FileWriter`.
        self.writes = FileWriter(context, handles, pages=self._pages, read_content=self._read_content)

    # ---- opening and closing ----

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        """Open a file; with `O_TRUNC`, truncate it first.

        Raises `OSError`: ESTALE if the name that was looked up belongs to another file by now.
        """
        file = await self._opened(ino, is_cut=bool(flags & os.O_TRUNC))
        fh = self._handles.open(file, flags)
        if flags & os.O_TRUNC:
            try:
                await self.writes.cut(file, 0)
            except BaseException:
                self._close(fh)
                raise
        # atomic: no await until the reply
        before, now = self._pages.get(ino, _NO_VERSION), file.version
        if isinstance(before, DraftVersion) and before.content is not None:
            before = before.content[0]
        self._pages[ino] = now
        is_news, was_told = self._inodes.tell_news(ino, is_news=before not in (_NO_VERSION, now))
        # Another open may have told the kernel to drop its pages, but it may not have done so yet.
        return OpenResult(fh, keep_cache=before == now and not was_told, is_news=is_news)

    def created(self, node: Node, draft: Draft, flags: int) -> OpenResult:
        """Open a file that was just created with an empty draft."""
        file = OpenFile(node.ino, self._blocks, draft=draft)
        self._open[node.ino], self._drafts.appended[node.ino] = file, Content("", 0, None, None)
        self._pages[node.ino] = draft.version
        self._inodes.opened(node.ino)
        return OpenResult(self._handles.open(file, flags))

    async def _opened(self, ino: Ino, *, is_cut: bool = False) -> OpenFile:
        """Return the open file of an inode, counted as open once more: from now on, remote changes do not
        replace its contents.

        `is_cut`: the contents will not be read, because the file is truncated to zero next.
        """
        while not self._inodes.try_open(ino):
            # A transaction may be replacing its contents now: wait for its end.
            await self._db.write(lambda conn: None)
        try:
            file, node = self._open.get(ino), None
            if file is None and (node := self._folder.find(ino)) is None:
                raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
            if node is None or node.parent is None:
                self._check_name(ino)
            if file is None:
                assert node is not None
                file = self._new_file(node)
            if file.draft is None and file.content is not None and not (is_cut or file.held):
                file.hold(file.content.sha1, file.content.size)
            return file
        except BaseException:
            self._inodes.closed(ino)
            raise

    def _check_name(self, ino: Ino) -> None:
        """Raise ESTALE, once, if a remote change has given the inode's name to another inode, or has just
        renamed the inode and a program has deleted it since.

        The kernel may not know it yet: on ESTALE it looks up the name again, and the program gets the new
        file.  A second open refers to this very inode (`/proc/self/fd`).
        """
        if self.is_stale(ino):
            self._reopened_stale.add(ino)
            raise errno_map.oserror(errno.ESTALE, f"ino {ino} lost its name to a remote change")

    def is_stale(self, ino: Ino) -> bool:
        """Whether opening the inode raises ESTALE now."""
        if ino in self._reopened_stale:
            return False
        return lineages.is_displaced_now(self._db, ino) or self._is_gone_since_named(ino)

    def _is_gone_since_named(self, ino: Ino) -> bool:
        if not self._inodes.fresh.was_named_now(ino):
            return False
        node = tree.find(self._db, ino)
        return node is not None and node.parent is None

    def _new_file(self, node: Node) -> OpenFile:
        draft = self._drafts.find(node.draft) if node.draft is not None else None
        content = None
        if draft is None and node.sha1 is not None:
            own = node.remote_id, node.version
            if node.remote_id is None or node.sha1 != node.base_sha1:
                own = past_versions.find(self._db, node.sha1) or (None, None)
            content = Content(node.sha1, node.size, *own)
        # The text of a web link while nothing is being written to it.
        is_link = node.kind is NodeKind.LINK and weblinks.is_shown(node)
        text = link_texts.current(self._db, node.ino) if is_link else None
        file = OpenFile(node.ino, self._blocks, draft=draft, content=content, text=text)
        self._open[node.ino] = file
        return file

    async def flush(self, fh: int) -> None:
        """Record written data; called at every close of a file descriptor."""
        handle = self._handles.file(fh)
        if handle.writable:
            await self.writes.record(handle.file)
        else:
            self._db.settle()  # it may have been made by this open

    async def release(self, fh: int) -> None:
        """Close a handle; the last writer's close makes the upload due."""
        handle = self._handles.file(fh)
        try:
            if handle.writable:
                await self.writes.record(handle.file)
        finally:
            self._close(fh)
            if handle.writable:
                self._push.wake()
            if not self._inodes.is_used(handle.file.ino):
                self._reaper.reap_soon(handle.file.ino)

    def _close(self, fh: int) -> None:
        """Remove the handle and update the counts of open files."""
        handle = self._handles.file(fh)
        self._handles.remove(fh)
        handle.file.closed(writable=handle.writable)
        self._inodes.closed(handle.file.ino)
        if not handle.file.handles:
            self._open.pop(handle.file.ino, None)

    def forgotten(self, ino: Ino) -> None:
        """Forget the state of an inode that the kernel has dropped with its pages."""
        self._pages.pop(ino, None)
        self._reopened_stale.discard(ino)

    # ---- reading ----

    async def read(self, fh: int, offset: int, size: int) -> Bytes:
        """Return up to `size` bytes, fewer only at the end of the file."""
        handle = self._handles.file(fh)
        file = handle.file
        while (draft := file.draft) is not None:
            try:
                return await self._read_draft(draft, offset, size)
            except FileNotFoundError as error:
                if not draft.dropped:
                    raise errno_map.oserror(errno.EIO, f"{draft.path} is gone") from error
                # The draft was sealed meanwhile: read from the content.
                if draft.content is None:
                    raise errno_map.oserror(errno.ESTALE) from error
        if file.text is not None:
            return file.text[offset : offset + size]
        content = file.content
        if content is None or offset >= content.size:
            return b""
        if offset == 0 and not handle.begun:
            handle.begun = True
            self._hydrator.began(file.ino, content)
        if ahead := handle.window.advance(offset, min(size, content.size - offset), content.size):
            self._hydrator.ahead(content, *ahead)
        doubts = self._blocks.doubts[content.sha1]
        if handle.doubts not in (None, doubts):
            # The program has read damaged data: fail, so that it does not finish as if all were correct.
            raise errno_map.oserror(
                errno.EIO, f"content {content.sha1} does not match its SHA-1; open the file again"
            )
        data = await self._read_content(content, offset, size)
        if handle.doubts is None:
            handle.doubts = doubts
        return data

    async def _read_content(self, content: Content, offset: int, size: int) -> Bytes:
        try:
            return await self._blocks.read(content, offset, size, self._hydrator)
        except errors.CmsfsError as error:
            raise errno_map.to_oserror(error) from error

    async def _read_draft(self, draft: Draft, offset: int, size: int) -> bytes:
        base = self._drafts.base(draft)
        parts: list[Bytes] = []
        for start, end, where in draft.pieces(offset, size):
            if where == "draft":
                parts.append(draft.read_held(start, end))
            elif where == "zero" or base is None:
                parts.append(bytes(end - start))
            else:
                parts.append(await self._read_content(base, start, end - start))
        return b"".join(parts)

    # ---- writing ----

    async def truncate(self, ino: Ino, size: int, fh: int | None = None) -> None:
        """Set the length of a file, whether open or not, and record it."""
        if fh is None:
            file = await self._opened(ino, is_cut=not size)
        else:
            file = self._handles.file(fh).file
            self._inodes.opened(ino)
        # atomic: no await until it is counted
        try:
            await self.writes.cut(file, size)
        finally:
            self._inodes.closed(ino)
            if not file.handles:
                self._open.pop(file.ino, None)

    async def record_all(self) -> None:
        """Record all open files and release their writers: no handle will be closed any more."""
        for file in list(self._open.values()):
            await self.writes.record(file)
            while file.writers:
                file.closed(writable=True)
        self._push.wake()

    # ---- for the next process that serves the same mount ----

    async def handed_over(self) -> dict[str, Any]:
        """Record all open files; return the state that the next process needs to serve the mount, as JSON.

        No further requests may be served.
        """
        files = []
        for file in list(self._open.values()):
            await self.writes.record(file)
            # Drafts are in the rows; the content being read may be that of an earlier row.
            content = file.content if file.draft is None else None
            text = None if file.text is None else b64encode(file.text).decode()
            files.append([file.ino, content and [content.sha1, content.size], text])
        return {
            "inodes": self._inodes.handed_over(),
            "held": tree.detached(self._db, self._inodes.is_used),
            "handles": self._handles.packed(),
            "files": files,
            "listings": self._listings.packed(),
            "asked_for": list(self._reopened_stale),
        }

    def take_over(self, given: dict[str, Any]) -> None:
        """Continue with the state that another process has `handed_over`: the same handles and numbers."""
        self._inodes.take_over(given["inodes"])
        self._listings.unpack(given["listings"])
        self._reopened_stale.update(given["asked_for"])
        held = {ino: (content, text) for ino, content, text in given["files"]}
        for fh, ino, flags in given["handles"]:
            self._inodes.opened(ino)
            self._handles.reopen(fh, ino if flags < 0 else self._reopened(ino, held.get(ino)), flags)

    def _reopened(self, ino: Ino, held: tuple[list[Any] | None, str | None] | None) -> OpenFile:
        """Return the open file of an inode; `held`: its content and text, if not those of its row."""
        if (file := self._open.get(ino)) is not None:
            return file
        node = tree.find(self._db, ino)
        if node is not None:
            file = self._new_file(node)
        else:
            file = self._open[ino] = OpenFile(ino, self._blocks, draft=None)
        if file.draft is None:
            if held is not None:
                content, text = held
                file.text = None if text is None else b64decode(text)
                if content is None:
                    file.content = None
                elif file.content is None or file.content.sha1 != content[0]:
                    own = past_versions.find(self._db, content[0]) or (None, None)
                    file.content = Content(content[0], content[1], *own)
            if file.content is not None:
                file.hold(file.content.sha1, file.content.size)
        elif file.draft.base_sha1 is not None:
            file.hold(file.draft.base_sha1, file.draft.base_total)
        return file

    # ---- queries ----

    def forget_written_time(self, node: Node) -> None:
        """Let what was written before now no longer change the node's time, which is set by a call."""
        # The next open may find the draft in memory, although nobody has the file open now.
        draft = self.live_draft(node)
        if draft is None and node.draft is not None:
            draft = self._drafts.in_memory(node.draft)
        if draft is not None:
            draft.mtime_ns = None

    def live_draft(self, node: Node) -> Draft | None:
        """Return a node's draft if it is in memory: its size and time are newer than the row's."""
        file = self._open.get(node.ino)
        return file.draft if file is not None else None
