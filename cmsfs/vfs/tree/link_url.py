"""The URL of a web link as an xattr, under freedesktop's name and ours.

Setting it is an edit of the link's file like any other: at once here, sent after a moment, with the rules of
such edits.  A file that says no address just now (it is being written, or is to be a file) is left alone, so
that what a downloading program notes of its file never gets between the bytes that it writes.

Rule: whatever dies in between, the file says one of the two addresses.
"""

import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from cmsfs.models import url_files
from cmsfs.models.content import web_links
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.vfs import errno_map
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.tree.files import FileIO

log = logging.getLogger(__name__)

WORD = "url"
XDG = "user.xdg.origin.url"


class LinkUrls:
    """The URLs of the tree's web links, including unsent changes."""

    def __init__(
        self,
        files: FileIO,
        current: Callable[[Ino], Node],
        allowed: Callable[[Node, NodeRight], Awaitable[None]],
    ) -> None:
        self._files = files
        self._current = current
        self._allowed = allowed

    async def find(self, node: Node) -> str | None:
        """The address that was written here and not sent; None: it is as the service says."""
        if node.kind is not NodeKind.LINK or (node.draft is None and node.sha1 is None):
            return None
        async with self._opened(node, os.O_RDONLY) as fh:
            found = await self._read(fh)
        return None if found is None else found[1].url

    async def set(self, node: Node, value: bytes) -> bool | None:
        """Let a web link lead elsewhere: whether its bytes were changed; None if it is none just now.

        Raises `OSError`: EINVAL, with a log line, for what no web link can lead to; EFBIG if the file would
        be too long for one; and as opening it for writing does.
        """
        url = _parsed(node, value)
        await self._allowed(node, NodeRight.READ | NodeRight.WRITE)
        node = self._current(node.ino)
        if node.kind is not NodeKind.LINK:
            return None
        async with self._opened(node, os.O_RDWR) as fh:
            if (found := await self._read(fh)) is None:
                return None
            data, before = found
            if before.url == url:
                return False
            new = url_files.edited(data, url=url)
            if url_files.parse(new) is None:
                raise errno_map.oserror(errno.EFBIG, node.name)  # it would be none any more
            await self._write(node, fh, data, new)
            return True

    @asynccontextmanager
    async def _opened(self, node: Node, flags: int) -> AsyncIterator[int]:
        fh = (await self._files.open(node.ino, flags)).fh
        try:
            yield fh
        finally:
            # The kernel had no part in this: what it remembers of the bytes is of no known version.
            self._files.forgotten(node.ino)
            await self._files.release(fh)

    async def _read(self, fh: int) -> tuple[bytes, url_files.Shortcut] | None:
        data = bytes(await self._files.read(fh, 0, url_files.MAX_BYTES + 1))
        found = url_files.parse(data)
        return None if found is None else (data, found.shortcut)

    async def _write(self, node: Node, fh: int, old: bytes, new: bytes) -> None:
        for offset, data in steps(old, new):
            await self._files.writes.write(fh, offset, data)
            await self._files.flush(fh)
        if len(new) < len(old):
            await self._files.truncate(node.ino, len(new), fh)


def steps(old: bytes, new: bytes) -> list[tuple[int, bytes]]:
    """What to write where, until only the length may be wrong; the address is never seen cut.

    Empty lines say nothing: the file is first as long as the longer one, and recorded so.
    """
    whole = (0, new.ljust(len(old), b"\n"))
    if len(new) <= len(old):
        return [whole]
    return [(len(old), b"\n" * (len(new) - len(old))), whole]


def _parsed(node: Node, value: bytes) -> str:
    try:
        url = value.rstrip(b"\0").decode("utf-8").strip()
    except UnicodeDecodeError:
        url = ""
    if not web_links.is_address(url):
        log.warning("%s can only be a web URL (https://…, http://…)", node.name)
        raise errno_map.oserror(errno.EINVAL, node.name)
    return url
