"""Contents that are not uploaded yet: how they enter the cache, and when they become evictable.

    a draft's file ── adopt ──> drafts/<sha1>, and a row with `dirty` set
                                   … upload …
    mark_clean (row) ── settle ──> blocks/ab/<sha1>

`adopt` links the file before it writes the row, and `settle` runs after the transaction with `mark_clean`; a
crash in between leaves a file in the drafts folder, which recovery.py handles.

Rule: a file in the drafts folder is never dropped or evicted, whatever its row says.
"""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from cmsfs import crashpoints, durability, sqlite
from cmsfs.cache import content_files, content_index, content_table
from cmsfs.crashpoints import Point
from cmsfs.runtime import threads

T = TypeVar("T")


class LocalFile(NamedTuple):
    """A file with this content, which is on disk."""

    sha1: str
    size: int
    path: Path


class LocalContents:
    """Adds local contents to the cache."""

    def __init__(
        self, db: sqlite.Database, known: content_index.ContentIndex, store: content_files.ContentFiles
    ) -> None:
        self._db = db
        self._contents = known
        self._files = store
        # Contents whose files are being linked and whose rows are not recorded yet.
        self._adopting: Counter[str] = Counter()

    async def adopt(self, found: Sequence[LocalFile], record: Callable[[sqlite.Connection], T]) -> T:
        """Make finished files dirty contents, and return the result of `record`, a transaction that must call
        `content_table.record_dirty` for each.

        The files also keep their old names.  One fsync makes all new names durable before the transaction,
        since another commit or a checkpoint may make its rows durable at any moment.
        Failed or cancelled: nothing has changed.  May be repeated.
        """
        self._adopting.update(file.sha1 for file in found)
        is_recorded = False
        try:
            if found:
                await self.enter(found)
            crashpoints.reached(Point.SEAL_ADOPTED)
            result = await self._db.write(record)
            is_recorded = True
            return result
        finally:
            self._adopting.subtract(file.sha1 for file in found)
            # Removes entries with a count of zero.
            self._adopting = +self._adopting
            if not is_recorded:
                self.disown(*(file.sha1 for file in found))

    async def enter(self, found: Sequence[LocalFile]) -> None:
        """Do the part of `adopt` before the transaction."""
        rows = [content_table.find(self._db, file.sha1) for file in found]
        recorded = [row is not None and row.dirty for row in rows]
        targets = [self._files.dirty(file.sha1) for file in found]
        await threads.run_sync(_link_in, list(zip(found, targets, recorded, strict=True)))
        for (sha1, size, _), target in zip(found, targets, strict=True):
            file = content_files.ContentFile(target)
            self._contents.replace(
                content_index.CachedContent(sha1, size, bits=None, verified=True, dirty=True, file=file)
            )

    def disown(self, *contents: str) -> None:
        """Undo `adopt` for contents that the transaction has not recorded."""
        for sha1 in contents:
            content, row = self._contents.find(sha1), content_table.find(self._db, sha1)
            is_recorded = row is not None and row.dirty
            # Another file with the same bytes may be being linked to this name.
            if content is None or not content.dirty or is_recorded or sha1 in self._adopting:
                continue
            self._contents.forget(content)
            content.file.path.unlink(missing_ok=True)

    async def settle(self, *contents: str) -> None:
        """Move contents that are marked clean to the cache's folder, where they may be evicted.

        No effect on others.  Cancelled or failed (`OSError`): they stay in the drafts folder until the next
        start, or until this is called again.
        """
        if not any(self._clean(sha1) for sha1 in contents):
            return
        # If a power failure takes back that they were sent, they must still be there.
        await self._db.sync_log()
        for sha1 in contents:
            # atomic: no await from here to the rename.
            if (content := self._clean(sha1)) is not None:
                await self._move_out(content)

    async def drop(self, *contents: str) -> None:
        """Remove contents that are marked clean and no longer referenced; settle those that are in use.

        Cancelled or failed (`OSError`): they stay in the drafts folder until the next start.
        """
        if not contents:
            return
        # If a power failure takes back that their files were deleted, they must still be there.
        await self._db.sync_log()
        for sha1 in contents:
            # atomic: no await from here to the unlink or rename.
            if (content := self._clean(sha1)) is None:
                continue
            if content.busy or self._contents.is_open(sha1):
                await self._move_out(content)
            else:
                content.file.path.unlink(missing_ok=True)
                self._contents.removed(content)

    def _clean(self, sha1: str) -> content_index.CachedContent | None:
        """Return the content if it is in the drafts folder and marked clean."""
        content = self._contents.find(sha1)
        return content if content is not None and content.dirty and self._is_clean(sha1) else None

    def _is_clean(self, sha1: str) -> bool:
        """Whether it is marked clean or has no row yet, and is not being adopted."""
        row = content_table.find(self._db, sha1)
        return (row is None or not row.dirty) and sha1 not in self._adopting

    async def _move_out(self, content: content_index.CachedContent) -> None:
        sha1 = content.sha1
        source, target = content.file.path, self._files.cached(sha1)
        # atomic: no await from the caller's check to the rename.
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            source.rename(target)
        except FileNotFoundError:
            return  # the file is lost; the next read discovers it
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            content.file.path = target
            self._contents.settled(content)
            return
        await self._settle_by_copy(content, target)

    async def hold(self, sha1: str, is_wanted: Callable[[sqlite.Connection, str], bool]) -> bool:
        """Move a complete content from the cache to the drafts folder; return whether it is dirty now.

        If it is not wanted, on failure or when cancelled, it returns to the cache.
        """
        content = self._contents.find(sha1)
        if content is None or not content.complete or content.dirty:
            return content is not None and content.dirty
        # A temporary second name, like others in this folder; they are removed at start.
        copy = self._files.dirty(sha1).with_suffix(".sealed")
        await threads.run_sync(_second_name, content.file.path, copy)

        def txn(conn: sqlite.Connection) -> bool:
            if not is_wanted(conn, sha1):
                return False
            content_table.record_dirty(conn, sha1, content.size)
            return True

        is_kept = False
        self._adopting[sha1] += 1
        try:
            await self.enter([LocalFile(sha1, content.size, copy)])
            copy.unlink()
            is_kept = await self._db.write(txn)
        finally:
            self._adopting.subtract([sha1])
            self._adopting = +self._adopting
            if not is_kept:
                await self.settle(sha1)
        return is_kept

    async def _settle_by_copy(self, content: content_index.CachedContent, target: Path) -> None:
        source, copy = content.file.path, self._files.new_copy()
        try:
            await threads.run_sync(shutil.copyfile, source, copy)
        except OSError:
            copy.unlink(missing_ok=True)
            if not content.dirty:
                return  # another call has moved it
            raise
        # atomic: no await from this check to the end.
        if content.dropped or not content.dirty or not self._is_clean(content.sha1):
            copy.unlink()  # during the copy it was adopted again, or moved by another call
            return
        copy.rename(target)
        source.unlink()
        self._files.retire(content.file)
        content.file = content_files.ContentFile(target)
        self._contents.settled(content)


def move_across(source: Path, target: Path, copy: Path) -> None:
    """Move a file; across file systems, copy it to `copy` (a name beside the target) and rename that."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(source, copy)
        durability.sync(copy)
        copy.rename(target)
        source.unlink()


def _second_name(path: Path, name: Path) -> None:
    """Hard-link a file, or copy it across file systems, and fsync it."""
    name.unlink(missing_ok=True)
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        try:
            shutil.copyfile(path, name)
        except OSError:
            name.unlink(missing_ok=True)
            raise
    durability.sync(name)


def _link_in(moves: Sequence[tuple[LocalFile, Path, bool]]) -> None:
    """Link each file to its name as content, unless a recorded one of the same size exists there."""
    for (_, size, path), target, is_recorded in moves:
        if (found := path.stat().st_size) != size:
            raise ValueError(f"{path} has {found} bytes, its content {size}")
        try:
            os.link(path, target)
        except FileExistsError:
            if is_recorded and target.stat().st_size == size:
                continue
            second_name = path.with_suffix(".linked.sealed")
            second_name.unlink(missing_ok=True)
            os.link(path, second_name)
            second_name.rename(target)
            # If both are names of the same file, rename does nothing.
            second_name.unlink(missing_ok=True)
    if moves:
        durability.sync(moves[0][1].parent)
