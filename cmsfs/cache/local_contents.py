"""Contents that are not uploaded yet: how they enter the cache, and when they become evictable.

    a draft's file ── adopt ──> drafts/<sha1>, and a row that says `dirty`
                                   … upload …
    mark_clean (row) ── settle ──> blocks/ab/<sha1>

In `adopt` the file comes before the row, and `settle` comes after the transaction with `mark_clean`; a crash
between leaves a file in the drafts folder, which recovery.py puts right.

Rule: a file in the drafts folder is never dropped nor evicted, whatever its row says.
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
    """A file with these bytes, which are on the disk."""

    sha1: str
    size: int
    path: Path


class LocalContents:
    """Brings local contents into the cache."""

    def __init__(
        self, db: sqlite.Database, known: content_index.ContentIndex, store: content_files.ContentFiles
    ) -> None:
        self._db = db
        self._contents = known
        self._files = store
        # From before a file is moved in until its row is recorded.
        self._adopting: Counter[str] = Counter()

    async def adopt(self, found: Sequence[LocalFile], record: Callable[[sqlite.Connection], T]) -> T:
        """Make finished files dirty contents, and return what `record` returned: a transaction that has to
        say so (`content_table.record_dirty`) of each.

        The files keep their names besides.  One fsync brings all the new ones to the disk before the
        transaction, whose rows may become durable at any moment by a commit or a checkpoint of others.
        Failed, or cancelled: nothing has happened.  May be repeated.
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
            # Without those at zero.
            self._adopting = +self._adopting
            if not is_recorded:
                self.disown(*(file.sha1 for file in found))

    async def enter(self, found: Sequence[LocalFile]) -> None:
        """`adopt` up to the transaction."""
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
        """Undo `adopt` of contents of which the transaction has not said so."""
        for sha1 in contents:
            content, row = self._contents.find(sha1), content_table.find(self._db, sha1)
            is_recorded = row is not None and row.dirty
            # Another file with these bytes may be on its way to the same name.
            if content is None or not content.dirty or is_recorded or sha1 in self._adopting:
                continue
            self._contents.forget(content)
            content.file.path.unlink(missing_ok=True)

    async def settle(self, *contents: str) -> None:
        """Move contents that are marked clean to the cache, where they may be evicted.

        Does nothing to one that has become dirty again.  Cancelled: they stay where they are until the next
        start.
        """
        for sha1 in contents:
            content = self._contents.find(sha1)
            # atomic: no await from here to the renaming.
            if content is not None and content.dirty and self._is_clean(sha1):
                await self._move_out(content)

    def _is_clean(self, sha1: str) -> bool:
        """Whether it is marked clean, or has no row yet; and no transaction on its way says otherwise."""
        row = content_table.find(self._db, sha1)
        return (row is None or not row.dirty) and sha1 not in self._adopting

    async def _move_out(self, content: content_index.CachedContent) -> None:
        sha1 = content.sha1
        source, target = content.file.path, self._files.cached(sha1)
        # atomic: no await from the look at the content to the rename.
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            source.rename(target)
        except FileNotFoundError:
            return  # it was lost; the next read of it finds out
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            content.file.path = target
            self._contents.settled(content)
            return
        await self._settle_by_copy(content, target)

    async def hold(self, sha1: str, is_wanted: Callable[[sqlite.Connection, str], bool]) -> bool:
        """Bring a complete content of the cache into the drafts folder; whether it is dirty now.

        Not wanted after all, failed or cancelled: it is in the cache again.
        """
        content = self._contents.find(sha1)
        if content is None or not content.complete or content.dirty:
            return content is not None and content.dirty
        # Beside the folder's other second names, which a start removes.
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

    async def drop(self, sha1: str) -> None:
        """Remove a content that is marked clean and that nothing has any more; settle it if it is in use."""
        content = self._contents.find(sha1)
        if content is None or not content.dirty or not self._is_clean(sha1):
            return
        if content.busy or self._contents.is_open(sha1):
            await self.settle(sha1)
            return
        content.file.path.unlink(missing_ok=True)
        self._contents.removed(content)

    async def _settle_by_copy(self, content: content_index.CachedContent, target: Path) -> None:
        source, copy = content.file.path, self._files.new_copy()
        try:
            await threads.run_sync(shutil.copyfile, source, copy)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        # atomic: no await from the look at the content to the end.
        if content.dropped or not self._is_clean(content.sha1):
            copy.unlink()  # it was adopted anew while we looked away
            return
        copy.rename(target)
        source.unlink()
        self._files.retire(content.file)
        content.file = content_files.ContentFile(target)
        self._contents.settled(content)


def move_across(source: Path, target: Path, copy: Path) -> None:
    """Move a file, over `copy` (a name beside the target) if that is another file system."""
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
    """Another name for a file, or a copy on another file system, whose bytes are on the disk."""
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
    """Give each file its name as content, unless one is there (as recorded) that is of its size."""
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
            # Where both were names of one file the renaming has done nothing.
            second_name.unlink(missing_ok=True)
    if moves:
        durability.sync(moves[0][1].parent)
