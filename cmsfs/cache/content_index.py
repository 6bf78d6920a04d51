"""In-memory index of the contents in use, over the `content` table.

`Contents` answers what is here from memory, and writes rows behind: a change is noted at once and
reaches the table with the next `flush`, many in one transaction.  A row is always written after the
bytes that it speaks of, and removed before another file takes their place (`is_disowned`), so a crash
loses the knowledge of some blocks and never invents any.

Rule: everything but `flush` runs on the loop without an await, so each call is atomic; who awaits
between two calls looks again at `dropped`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from cmsfs import sqlite
from cmsfs.cache import bitmap, content_files, content_table, streaming_hash
from cmsfs.runtime import clock, threads

# Contents remembered after their last use; one takes about half a KiB.
MAX_LIVE = 1024

# Eviction tells days from hours; a row written a second for each file being read would be waste.
TOUCH_SECONDS = 60


class CachedContent:
    """What this process knows of one content; `bits` is None when every block is here."""

    __slots__ = (
        "bits",
        "checking",
        "dirty",
        "dropped",
        "file",
        "growing",
        "sha1",
        "size",
        "used_at",
        "verified",
        "writing",
    )

    def __init__(
        self,
        sha1: str,
        size: int,
        *,
        bits: bytearray | None,
        verified: bool,
        dirty: bool,
        file: content_files.ContentFile,
    ) -> None:
        self.sha1 = sha1
        self.size = size
        self.bits = bits
        self.verified = verified
        self.dirty = dirty  # the file is in the drafts folder: neither dropped nor evicted
        self.file = file
        self.used_at = 0
        self.dropped = False  # another `Content`, or none, stands for this SHA-1 now
        self.writing: dict[int, trio.Event] = {}  # blocks being written: set when that ended
        self.growing: streaming_hash.StreamingHash | None = None  # its hash so far, while it comes in parts
        self.checking: trio.Event | None = None  # the whole file is being hashed: set when that ended

    @property
    def complete(self) -> bool:
        return self.bits is None

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.file.users or self.checking)

    @property
    def cached_bytes(self) -> int:
        """What eviction of this content would free."""
        return 0 if self.dirty else bitmap.present_bytes(self.bits, self.size)


class ContentIndex:
    """Every content by its SHA-1, and the bytes that the clean ones take up (`used`)."""

    def __init__(
        self,
        db: sqlite.Database,
        store: content_files.ContentFiles,
        *,
        now: Callable[[], float] | None = None,
        max_live: int = MAX_LIVE,
    ) -> None:
        self.used = 0
        self._db = db
        self._files = store
        self._now = now or clock.time
        self._max_live = max_live
        self._live: OrderedDict[str, CachedContent] = OrderedDict()  # the longest unused first
        self._opens: dict[str, int] = {}
        # Rows to write, None to remove.  `_in_flight` is what a running flush is writing; until it is
        # done the table does not yet say so, and `_load` must not believe the table.
        self._pending: dict[str, CachedContent | None] = {}
        self._in_flight: dict[str, CachedContent | None] = {}
        self._flushing = trio.Lock()

    def get(self, sha1: str, size: int) -> CachedContent:
        """The content; one of which nothing is here if it is not known.

        Once a content is complete its own size is right, whatever a listing says; until then a new
        size makes it begin anew.
        """
        content = self.find(sha1)
        if content is not None and content.size != size and not content.complete:
            self.drop(content)
            content = None
        if content is None:
            content = self._fresh(sha1, size)
            self._enter(content)
        return content

    def find(self, sha1: str) -> CachedContent | None:
        """The content if anything is known of it."""
        if (content := self._live.get(sha1)) is not None:
            self._live.move_to_end(sha1)
            return content
        if (
            sha1 in self._pending
            or sha1 in self._in_flight
            or (row := content_table.find(self._db, sha1)) is None
        ):
            return None  # what is live is never pruned with a row to write: these are removals
        content = self._load(row)
        self._enter(content)
        return content

    def is_disowned(self, sha1: str) -> bool:
        """Whether the table may still speak of a file that was dropped: a flush comes before a new one."""
        return any(rows.get(sha1, self) is None for rows in (self._pending, self._in_flight))

    def _fresh(self, sha1: str, size: int) -> CachedContent:
        bits = bitmap.empty(size) if size else None
        file = content_files.ContentFile(self._files.cached(sha1))
        content = CachedContent(sha1, size, bits=bits, verified=not size, dirty=False, file=file)
        content.used_at = int(self._now())
        return content

    def _load(self, row: content_table.ContentRow) -> CachedContent:
        place, dirty = self._files.cached(row.sha1), row.dirty
        if dirty or not place.exists():
            # A clean content whose file is still with the drafts is about to be settled.
            drafted = self._files.dirty(row.sha1)
            if drafted.exists() or dirty:
                place, dirty = drafted, True
            elif row.size:  # somebody cleared the cache's folder under us
                self.used -= bitmap.present_bytes(row.bits, row.size)
                self._pending[row.sha1] = None
                return self._fresh(row.sha1, row.size)
        bits = None if row.bits is None or dirty else bytearray(row.bits)
        verified = row.verified or not row.size
        if bits is not None and not bitmap.absent(bits, row.size):
            bits, verified = None, False
        content = CachedContent(
            row.sha1,
            row.size,
            bits=bits,
            verified=verified,
            dirty=dirty,
            file=content_files.ContentFile(place),
        )
        content.used_at = row.used_at
        return content

    def _enter(self, content: CachedContent) -> None:
        self._live[content.sha1] = content
        if len(self._live) <= self._max_live:
            return
        # A few at a time, so that a thousand open files do not make every look-up a long walk.
        for sha1 in [sha1 for sha1, _ in zip(self._live, range(8), strict=False)]:
            old = self._live[sha1]
            if old is content or self.in_use(old) or sha1 in self._pending or sha1 in self._in_flight:
                self._live.move_to_end(sha1)
            else:
                del self._live[sha1]
                self._files.retire(old.file)

    def opened(self, sha1: str, size: int) -> None:
        """Keep this content from eviction until it is `closed` as often."""
        self._opens[sha1] = self._opens.get(sha1, 0) + 1
        self.touch(self.get(sha1, size))

    def closed(self, sha1: str) -> None:
        left = self._opens[sha1] - 1
        if left:
            self._opens[sha1] = left
        else:
            del self._opens[sha1]

    def is_open(self, sha1: str) -> bool:
        return sha1 in self._opens

    def in_use(self, content: CachedContent) -> bool:
        """Whether it must stay in memory and on disk.  Dirty contents always do."""
        return content.dirty or content.busy or content.sha1 in self._opens

    def live(self) -> Iterator[CachedContent]:
        """What is in memory, the longest unused first."""
        return iter(list(self._live.values()))

    def file_of(self, sha1: str) -> Path | None:
        """Where the content's file is, if anything is known of it."""
        content = self.find(sha1)
        return None if content is None else content.file.path

    def checked_file(self, sha1: str) -> Path | None:
        """The file of a complete content that is known to match its SHA-1, while it is there."""
        content = self.find(sha1)
        if content is None or not (content.complete and content.verified) or not content.file.path.exists():
            return None
        return content.file.path

    def touch(self, content: CachedContent) -> None:
        """It is being used: later in the order of eviction."""
        now = int(self._now())
        if now - content.used_at >= TOUCH_SECONDS:
            content.used_at = now
            # The row of a dirty one is the journal's.
            if not content.dirty and content.cached_bytes:
                self._pending[content.sha1] = content

    def add_blocks(self, content: CachedContent, first: int, last: int) -> None:
        """The bytes of these blocks, none of which was here, are in the file."""
        assert content.bits is not None
        bitmap.add(content.bits, first, last)
        self.used += bitmap.run_bytes(content.size, first, last)
        self._pending[content.sha1] = content

    def completed(self, content: CachedContent, first: int, last: int) -> None:
        """The last missing blocks are in the file, and the whole has the right SHA-1."""
        self.used += bitmap.run_bytes(content.size, first, last)
        content.bits = content.growing = None
        content.verified = True
        self._pending[content.sha1] = content

    def found_right(self, content: CachedContent) -> None:
        """The whole file was hashed, and has the right SHA-1."""
        content.verified = True
        self._pending[content.sha1] = content

    def drop(self, content: CachedContent) -> None:
        """Forget a clean content and take its file away; readers that have it keep their descriptor."""
        assert not content.dirty
        if content.dropped:
            return
        self._detach(content)
        self._pending[content.sha1] = None

    def replace(self, content: CachedContent) -> None:
        """This one stands for its SHA-1 from now on; the journal writes its row."""
        if (old := self.find(content.sha1)) is not None:
            self._detach(old)
        self._pending.pop(content.sha1, None)
        self._enter(content)

    def forget(self, content: CachedContent) -> None:
        """A dirty content that was never recorded is nobody's any more; its file is the caller's."""
        self._detach(content)
        self._pending.pop(content.sha1, None)

    def removed(self, content: CachedContent) -> None:
        """The file of a dirty content that is marked clean is gone; so is its row, with the next flush."""
        self._detach(content)
        self._pending[content.sha1] = None

    def settled(self, content: CachedContent) -> None:
        """A dirty content's file is in the cache's folder now."""
        content.dirty = False
        content.used_at = int(self._now())
        self.used += content.size
        self._pending[content.sha1] = content

    def _detach(self, content: CachedContent) -> None:
        content.dropped = True
        self._live.pop(content.sha1, None)
        self._files.retire(content.file)
        if not content.dirty:
            self.used -= content.cached_bytes
            self._files.discard(content.file.path)

    async def flush(self) -> None:
        """Write all rows noted so far, in one transaction, and remove the files of what was dropped.

        Cancelled: the rows are written with the next flush.
        """
        if not (self._files.has_discarded or self._pending or self._flushing.locked()):
            return
        async with self._flushing:
            if self._files.has_discarded:
                await threads.run_sync(self._files.delete_discarded)
            if not self._pending:
                return
            # atomic: no await until the rows to write are copied.
            batch, self._pending = self._pending, {}
            self._in_flight = batch
            gone = [sha1 for sha1, content in batch.items() if content is None]
            saved = [_row(content) for content in batch.values() if content is not None]

            def txn(conn: sqlite.Connection) -> None:
                content_table.remove(conn, gone)
                content_table.save(conn, saved)

            try:
                await self._db.write(txn)
            except BaseException:
                for sha1, content in batch.items():
                    if content is None or self._live.get(sha1) is content:
                        self._pending.setdefault(sha1, content)
                raise
            finally:
                self._in_flight = {}


def _row(content: CachedContent) -> content_table.ContentRow:
    bits = None if content.bits is None else bytes(content.bits)
    return content_table.ContentRow(
        content.sha1, content.size, bits, content.verified, content.dirty, False, content.used_at
    )
