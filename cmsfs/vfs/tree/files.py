"""Open files: opening, reading, closing.

`Filesystem` resolves names and hands inodes to this module; both work on one `Inodes`.  Reads come from
the block cache or the draft and wait only for the hydrator.  What is written is `FileWriter`'s.

Rule: an inode is counted as open before its row is read, so that news leave the bytes of an open file alone.
"""

import errno
import logging
import os
from base64 import b64decode, b64encode
from typing import Any

from cmsfs import errors
from cmsfs.journal.draft import Draft
from cmsfs.replica import link_texts, tree
from cmsfs.replica.merge import lineages
from cmsfs.replica.nodes import Content, Ino, Node, NodeKind
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree import weblinks
from cmsfs.vfs.tree.attributes import OpenResult
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.vfs.tree.dir_snapshots import Snapshots
from cmsfs.vfs.tree.handles import Handles, OpenFile, PageVersion
from cmsfs.vfs.tree.reaper import Reaper
from cmsfs.vfs.tree.writes import FileWriter

log = logging.getLogger(__name__)

# What a read gives; nobody changes it, so it is not copied.
Bytes = bytes | bytearray

# Differs from every version, also from that of a file without bytes (None).
_NO_VERSION = object()


class FileIO:
    """Reads and writes of file contents."""

    def __init__(self, context: TreeContext, handles: Handles, reaper: Reaper, listings: Snapshots) -> None:
        self._db = context.db
        self._blocks = context.blocks
        self._drafts = context.drafts
        self._hydrator = context.hydrator
        self._push = context.push
        self._inodes = context.inodes
        self._handles = handles
        self._reaper = reaper
        self._listings = listings
        self._open: dict[Ino, OpenFile] = {}
        # Inodes that were asked for again after the kernel was told to look their name up.
        self._asked_for: set[Ino] = set()
        # Of which version the kernel has pages.
        self._pages: dict[Ino, PageVersion] = {}
        # What is about writing alone is answered there.
        self.writes = FileWriter(context, handles, pages=self._pages, read_content=self._read_content)

    # ---- opening and closing ----

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        """A new handle, on an empty file with `O_TRUNC`.

        Raises `OSError`: ESTALE if the name that led here leads elsewhere by now.
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
        if isinstance(before, Draft) and before.content is not None:
            before = before.content[0]
        self._pages[ino] = now
        is_news, was_told = self._inodes.tell_news(ino, is_news=before not in (_NO_VERSION, now))
        # Pages that another open has the kernel drop may be there yet: its program has to run first.
        return OpenResult(fh, keep_cache=before == now and not was_told, is_news=is_news)

    def created(self, node: Node, draft: Draft, flags: int) -> OpenResult:
        """The handle of a file that was just made with an empty draft."""
        file = OpenFile(node.ino, self._blocks, draft=draft)
        self._open[node.ino], self._drafts.appended[node.ino] = file, Content("", 0, None, None)
        self._pages[node.ino] = draft
        self._inodes.opened(node.ino)
        return OpenResult(self._handles.open(file, flags))

    async def _opened(self, ino: Ino, *, is_cut: bool = False) -> OpenFile:
        """The open file of an inode, counted as open once more: from here on news leave its bytes alone.

        `is_cut`: what it holds is not to be read, for it is cut off next.
        """
        while not self._inodes.try_open(ino):
            # A transaction may be giving it other bytes at this moment: wait for its end.
            await self._db.write(lambda conn: None)
        try:
            file, node = self._open.get(ino), None
            if file is None and (node := tree.find(self._db, ino)) is None:
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
        """Raise ESTALE, once, if news have given the inode's name to another, or it had another one from them
        a moment ago and went by a program's will.

        The kernel may not have heard of it yet: at this errno it looks the name up anew, and whoever opens
        the file gets the new one.  Who asks a second time means this very inode (`/proc/self/fd`).
        """
        if self.is_stale(ino):
            self._asked_for.add(ino)
            raise errno_map.oserror(errno.ESTALE, f"ino {ino} lost its name to a remote change")

    def is_stale(self, ino: Ino) -> bool:
        """Whether opening the inode is answered ESTALE now."""
        if ino in self._asked_for:
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
                own = tree.find_bytes(self._db, node.sha1) or (None, None)
            content = Content(node.sha1, node.size, *own)
        # What a web link shows while nothing is being written to it.
        is_link = node.kind is NodeKind.LINK and weblinks.is_shown(node)
        text = link_texts.current(self._db, node.ino) if is_link else None
        file = OpenFile(node.ino, self._blocks, draft=draft, content=content, text=text)
        self._open[node.ino] = file
        return file

    async def flush(self, fh: int) -> None:
        """Record what was written; called at every close of a descriptor."""
        handle = self._handles.file(fh)
        if handle.writable:
            await self.writes.record(handle.file)

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
        """Take the handle out of every count."""
        handle = self._handles.file(fh)
        self._handles.remove(fh)
        handle.file.closed(writable=handle.writable)
        self._inodes.closed(handle.file.ino)
        if not handle.file.handles:
            self._open.pop(handle.file.ino, None)

    def forgotten(self, ino: Ino) -> None:
        """The kernel dropped the inode, and its pages with it."""
        self._pages.pop(ino, None)
        self._asked_for.discard(ino)

    # ---- reading ----

    async def read(self, fh: int, offset: int, size: int) -> Bytes:
        """Up to `size` bytes, fewer only at the end of the file."""
        handle = self._handles.file(fh)
        file = handle.file
        while (draft := file.draft) is not None:
            try:
                return await self._read_draft(draft, offset, size)
            except FileNotFoundError as error:
                if not draft.dropped:
                    raise errno_map.oserror(errno.EIO, f"{draft.path} is gone") from error
                # It has become content meanwhile, which has the bytes.
                if draft.content is None:
                    raise errno_map.oserror(errno.ESTALE) from error
        if file.text is not None:
            return file.text[offset : offset + size]
        content = file.content
        if content is None or offset >= content.size:
            return b""
        if offset == 0 and not handle.begun:
            handle.begun = True
            self._hydrator.began(file.ino)
        if ahead := handle.window.advance(offset, min(size, content.size - offset), content.size):
            self._hydrator.ahead(content, *ahead)
        doubts = self._blocks.doubts[content.sha1]
        if handle.doubts not in (None, doubts):
            # The program has bytes that were wrong: it must not come to the end as if all were well.
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
        """Set the length of a file, open or not, and record it."""
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
        """Record what every open file has, and let go of all: no handle will be closed any more."""
        for file in list(self._open.values()):
            await self.writes.record(file)
            while file.writers:
                file.closed(writable=True)
        self._push.wake()

    # ---- for the next process that serves the same mount ----

    async def handed_over(self) -> dict[str, Any]:
        """What the next process needs to serve the mount, as JSON has it; nobody asks any more.

        What programs have written to open files is recorded.
        """
        files = []
        for file in list(self._open.values()):
            await self.writes.record(file)
            # What they are written to their rows say; what they read from may be what a row said once.
            content = file.content if file.draft is None else None
            text = None if file.text is None else b64encode(file.text).decode()
            files.append([file.ino, content and [content.sha1, content.size], text])
        return {
            "inodes": self._inodes.handed_over(),
            "held": tree.detached(self._db, self._inodes.is_used),
            "handles": self._handles.packed(),
            "files": files,
            "listings": self._listings.packed(),
            "asked_for": list(self._asked_for),
        }

    def take_over(self, given: dict[str, Any]) -> None:
        """Go on from what another process has `handed_over`: the same handles under the same numbers."""
        self._inodes.take_over(given["inodes"])
        self._listings.unpack(given["listings"])
        self._asked_for.update(given["asked_for"])
        held = {ino: (content, text) for ino, content, text in given["files"]}
        for fh, ino, flags in given["handles"]:
            self._inodes.opened(ino)
            self._handles.reopen(fh, ino if flags < 0 else self._reopened(ino, held.get(ino)), flags)

    def _reopened(self, ino: Ino, held: tuple[list[Any] | None, str | None] | None) -> OpenFile:
        """`held`: what it is read from, if not as its row says."""
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
                    own = tree.find_bytes(self._db, content[0]) or (None, None)
                    file.content = Content(content[0], content[1], *own)
            if file.content is not None:
                file.hold(file.content.sha1, file.content.size)
        elif file.draft.base_sha1 is not None:
            file.hold(file.draft.base_sha1, file.draft.base_total)
        return file

    # ---- what others ask ----

    def live_draft(self, node: Node) -> Draft | None:
        """The draft of a node if it is in memory: it knows the size and time that the row does not yet."""
        file = self._open.get(node.ino)
        return file.draft if file is not None else None
