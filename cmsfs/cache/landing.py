"""Runs of blocks that the thread which receives them writes and hashes, too.

A piece that goes from the thread that receives it to the loop, and from there to one that writes it, costs
the loop twice what writing it does.  Where much is to come, one thread does all that for one piece after the
other, in a buffer of its own, and the loop only hears of what has landed.

Rule: as in `block_writer`.  All blocks of a run are marked as being written until the run ends, and the last
that a content lacks can be read only when the whole was found right.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from cmsfs.cache import bitmap, block_writer, content_files, content_index

# What is written at a time; of a run's beginning less, since somebody may wait for it.  In a buffer that is
# used again and again: new ones cost more than what is done with them.
PIECE_BYTES = 1024 * 1024
FIRST_BYTES = 128 * 1024

# Buffers that wait for another run.
_SPARE = 4


class Landing:
    """A run on its way into its content's file.

    `space` and `came` are called by one thread, all else by the loop; the thread ends before the run does.
    """

    def __init__(
        self,
        writer: block_writer.BlockWriter,
        known: content_index.ContentIndex,
        content: content_index.CachedContent,
        fd: int,
        first: int,
        last: int,
        buffer: bytearray,
        told: Callable[[int, int], None],
    ) -> None:
        self._writer = writer
        self._contents = known
        self._content = content
        self._fd = fd
        self._first = first
        self._last = last
        self._view = memoryview(buffer)
        self._told = told
        self._token = trio.lowlevel.current_trio_token()
        self._hash = block_writer.hash_of(content)
        self._bits = content.bits
        self._next = first  # the block at the beginning of the buffer
        self._held = 0
        self._piece = FIRST_BYTES
        self._landed: deque[bitmap.Run] = deque()  # written, and not known to the loop
        self._nbytes = 0
        self._final: bitmap.Run | None = None
        self._error: OSError | None = None
        # What the loop does when something has come and the thread begins.
        self.begins: Callable[[], None] = lambda: None

    # ---- in the thread ----

    def space(self) -> memoryview:
        """Where the next bytes go."""
        return self._view[self._held : self._piece]

    def came(self, count: int) -> bool:
        """So many bytes have come there: whole blocks are written.  Whether more can be taken."""
        self._held += count
        content, start = self._content, self._next * bitmap.BLOCK
        ends = self._held >= bitmap.run_bytes(content.size, self._next, self._last)
        whole = self._held if ends else self._held - self._held % bitmap.BLOCK
        if not whole:
            return True
        self._piece = min(2 * self._piece, PIECE_BYTES)
        try:
            content_files.write(self._fd, content.size, start, self._view[:whole])
            first, self._next = self._next, self._next + bitmap.blocks(whole)
            self._landed.append((first, self._next - 1))
            self._token.run_sync_soon(self.look, idempotent=True)
            self._held -= whole
            self._view[: self._held] = self._view[whole : whole + self._held]
            self._hash.follow(self._fd, content.size, self._bits, self._first, self._next - 1)
        except OSError as error:
            self._error = error
            return False
        return not (ends or content.dropped)

    # ---- on the loop ----

    @property
    def rest(self) -> bytes:
        """What has come behind the last whole block."""
        return bytes(self._view[: self._held])

    @property
    def is_lost(self) -> bool:
        """Whether what has come is not there to be had: it was damaged, or a local content took its place."""
        return self._content.dropped

    @property
    def is_done(self) -> bool:
        """Whether all of the run is here."""
        return self._next > self._last

    def look(self) -> None:
        """Blocks that are in the file can be read, but for the last that are missing."""
        # atomic: no await between the look at what is absent and the marks.
        while self._landed and not self._content.dropped:
            first, last = self._landed.popleft()
            if bitmap.lacks_only(self._content.bits, self._content.size, first, last):
                self._final = first, last
                return
            self._contents.add_blocks(self._content, first, last)
            self._tell(first, last)

    def _tell(self, first: int, last: int) -> None:
        nbytes = bitmap.run_bytes(self._content.size, first, last)
        self._nbytes += nbytes
        self._told(last + 1, nbytes)

    async def settle(self) -> None:
        """Have known what has landed.  Raises as `BlockWriter.write_blocks`; see `is_lost` then."""
        self.look()
        try:
            if self._error is not None:
                raise self._error
            if self._final is not None and not self._content.dropped:
                final, self._final = self._final, None
                await self._writer.conclude(self._content, self._fd, *final)
                if not self._content.dropped:
                    self._tell(*final)
        except OSError as error:
            self._writer.damaged(self._content, error)
        nbytes, self._nbytes = self._nbytes, 0
        if nbytes and not self._content.dropped:
            await self._writer.wrote(self._content, nbytes)


class Landings:
    """Makes them."""

    def __init__(
        self,
        writer: block_writer.BlockWriter,
        known: content_index.ContentIndex,
        store: content_files.ContentFiles,
    ) -> None:
        self._writer = writer
        self._contents = known
        self._files = store
        self._spare: list[bytearray] = []

    @contextmanager
    def begun(
        self, sha1: str, size: int, first: int, last: int, rest: bytes, told: Callable[[int, int], None]
    ) -> Iterator[Landing | None]:
        """A run of blocks from `first` to `last`, of which these bytes are here; `told` hears of the block up
        to which it can be read, and of how many bytes more that is.

        None if some of it is here or being written, or nothing of the content is: then by `write_blocks`.
        """
        content = self._contents.get(sha1, size)
        # atomic: no await from the look at the bitmap until the blocks are marked as being written.
        free = content.writing.keys().isdisjoint(range(first, last + 1))
        some = content.bits is not None and any(content.bits)
        if not (free and some) or bitmap.missing(content.bits, first, last) != [(first, last)]:
            yield None
            return
        try:
            fd = self._files.borrow(content.file, size=size, writable=True)
        except OSError as error:
            self._writer.damaged(content, error)
            yield None
            return
        buffer = self._spare.pop() if self._spare else bytearray(PIECE_BYTES)
        ended = trio.Event()
        marks = dict.fromkeys(range(first, last + 1), ended)
        content.writing |= marks
        try:
            found = Landing(self._writer, self._contents, content, fd, first, last, buffer, told)
            found.space()[: len(rest)] = rest
            found.came(len(rest))
            try:
                yield found
            finally:
                found.look()
        finally:
            for marked in marks:
                del content.writing[marked]
            ended.set()
            self._files.give_back(content.file)
            if len(self._spare) < _SPARE:
                self._spare.append(buffer)
