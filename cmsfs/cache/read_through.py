"""Reads content through the cache, downloading missing blocks first.

Used for handles, for the base under a draft and for sealing.  How blocks are fetched is the business of
a layer above; it hands in a `Fetcher`.
"""

from typing import Protocol

from cmsfs import errors
from cmsfs.cache.blocks import BLOCK, BlockCache
from cmsfs.replica.nodes import Content

# Blocks can be evicted between their arrival and the read; more than this many times in a row is a bug.
ATTEMPTS = 5


class Fetcher(Protocol):
    """Brings blocks of a content onto this disk."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached; OSError or RemoteError if not."""


async def read(
    blocks: BlockCache, fetcher: Fetcher, content: Content, offset: int, length: int
) -> bytes | bytearray:
    """Up to `length` bytes at `offset`, fewer only at the end of the content."""
    length = min(length, content.size - offset)
    if length <= 0:
        return b""
    for _ in range(ATTEMPTS):
        try:
            return await blocks.read(content.sha1, content.size, offset, length)
        except errors.MissingBlocks:
            await fetcher.blocks(content, offset // BLOCK, (offset + length - 1) // BLOCK)
    raise errors.MissingBlocks(content.sha1, offset // BLOCK, (offset + length - 1) // BLOCK)
