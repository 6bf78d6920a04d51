"""The URL of a web link as an extended attribute, under freedesktop's name and ours.

Setting it edits the link's file like any other write: locally at once, uploaded shortly after.  A file
without a valid address (it is being written, or becomes a regular file) is not edited, so that a download
program that sets this attribute does not damage the file that it is writing.

Rule: after a crash at any point, the file has one of the two addresses.
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
        """Return the URL if it was changed locally and is not uploaded yet; otherwise None."""
        if node.kind is not NodeKind.LINK or (node.draft is None and node.sha1 is None):
            return None
        async with self._opened(node, os.O_RDONLY) as fh:
            found = await self._read(fh)
        return None if found is None else found[1].url

    async def set(self, node: Node, value: bytes) -> bool | None:
        """Change the URL of a web link; return whether its contents were changed, None if it is not a valid
        web link now.

        Raises `OSError`: EINVAL, with a log line, for an invalid URL; EFBIG if the file would be too long for
        a web link; and as opening it for writing does.
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
                raise errno_map.oserror(errno.EFBIG, node.name)  # no longer a valid web link
            await self._write(node, fh, data, new)
            return True

    @asynccontextmanager
    async def _opened(self, node: Node, flags: int) -> AsyncIterator[int]:
        fh = (await self._files.open(node.ino, flags)).fh
        try:
            yield fh
        finally:
            # This bypasses the kernel: forget which version its pages are of.
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
    """Return the writes, by offset, that change the contents; afterwards only the length may be wrong.

    The URL is never truncated in between: the file is first padded with empty lines, which have no meaning,
    to the longer length.
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
