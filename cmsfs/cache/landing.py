"""Downloads of block runs whose receiving thread also writes and hashes the data.

Passing a piece from the receiving thread to the loop, and from there to a writing thread, costs the loop
twice as much as writing it.  So for large downloads one thread does everything, piece after piece, in its own
buffer, and only reports to the loop what has been written.

Rule: as in `block_writer`.  All blocks of a run are marked as being written until the run ends, and the last
missing blocks of a content become readable only after the whole has been verified.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from cmsfs.cache import bitmap, block_writer, content_files, content_index

# Size of a write; smaller at the start of a run, since a reader may be waiting for it.  Buffers are reused:
# allocating new ones costs more than the work done in them.
PIECE_BYTES = 1024 * 1024
FIRST_BYTES = 128 * 1024

# Maximum number of idle buffers.
_SPARE = 4


class Landing:
    """Receives a run of blocks into its content's file.

    `space` and `came` are called by one thread, everything else by the loop; the thread ends before the run.
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
        on_landed: Callable[[int, int], None],
    ) -> None:
        self._writer = writer
        self._contents = known
        self._content = content
        self._fd = fd
        self._first = first
        self._last = last
        self._view = memoryview(buffer)
        self._on_landed = on_landed
        self._token = trio.lowlevel.current_trio_token()
        self._hash = block_writer.hash_of(content)
        self._bits = content.bits
        self._next = first  # the block at the start of the buffer
        self._held = 0
        self._piece = FIRST_BYTES
        self._landed: deque[bitmap.Run] = deque()  # written, not processed by the loop yet
        self._nbytes = 0
        self._final: bitmap.Run | None = None
        self._error: OSError | None = None
        # Called on the loop when data has arrived and the thread starts.
        self.begins: Callable[[], None] = lambda: None

    # ---- in the thread ----

    def space(self) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._view[self._held : self._piece]

    def came(self, count: int) -> bool:
        """Accept `count` received bytes and write whole blocks; return whether more can be taken."""
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
            self._token.run_sync_soon(self.process_landed, idempotent=True)
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
        """The bytes received after the last whole block."""
        return bytes(self._view[: self._held])

    @property
    def is_lost(self) -> bool:
        """Whether the received data is unusable: it was damaged, or a local content replaced it."""
        return self._content.dropped

    @property
    def is_done(self) -> bool:
        """Whether the whole run has been written."""
        return self._next > self._last

    def process_landed(self) -> None:
        """Make written blocks readable, except the content's last missing ones."""
        # atomic: no await between reading and changing the bitmap.
        while self._landed and not self._content.dropped:
            first, last = self._landed.popleft()
            if bitmap.lacks_only(self._content.bits, self._content.size, first, last):
                self._final = first, last
                return
            self._contents.add_blocks(self._content, first, last)
            self._report(first, last)

    def _report(self, first: int, last: int) -> None:
        nbytes = bitmap.run_bytes(self._content.size, first, last)
        self._nbytes += nbytes
        self._on_landed(last + 1, nbytes)

    async def settle(self) -> None:
        """Process everything written, and verify a complete content.  Raises as `BlockWriter.write_blocks`;
        check `is_lost` afterwards."""
        self.process_landed()
        try:
            if self._error is not None:
                raise self._error
            if self._final is not None and not self._content.dropped:
                final, self._final = self._final, None
                await self._writer.conclude(self._content, self._fd, *final)
                if not self._content.dropped:
                    self._report(*final)
        except OSError as error:
            self._writer.damaged(self._content, error)
        nbytes, self._nbytes = self._nbytes, 0
        if nbytes and not self._content.dropped:
            await self._writer.wrote(self._content, nbytes)


class Landings:
    """Starts landings and keeps their buffers."""

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
        self, sha1: str, size: int, first: int, last: int, rest: bytes, on_landed: Callable[[int, int], None]
    ) -> Iterator[Landing | None]:
        """Start a run of blocks from `first` to `last` whose first bytes are `rest`.  `on_landed` is called
        with the block up to which the run is readable, and the number of bytes added.

        Yields None if part of the run is present or being written, or if the content has no block yet: use
        `write_blocks` then.
        """
        content = self._contents.get(sha1, size)
        # atomic: no await from reading the bitmap until the blocks are marked as being written.
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
            found = Landing(self._writer, self._contents, content, fd, first, last, buffer, on_landed)
            found.space()[: len(rest)] = rest
            found.came(len(rest))
            try:
                yield found
            finally:
                found.process_landed()
        finally:
            for marked in marks:
                del content.writing[marked]
            ended.set()
            self._files.give_back(content.file)
            if len(self._spare) < _SPARE:
                self._spare.append(buffer)
