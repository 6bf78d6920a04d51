"""Contents that are not uploaded yet: how they enter the cache, and when they become evictable.

    a draft's file ── adopt ──> drafts/<sha1>, record_dirty (row)
                                   … upload …
    mark_clean (row) ── settle ──> blocks/ab/<sha1>

`adopt` comes before the transaction with `record_dirty`, `settle` after the one with `mark_clean`; a
crash between leaves a file in the drafts folder, which recovery.py puts right.

Rule: a file in the drafts folder is never dropped nor evicted, whatever its row says.
"""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import trio

from cmsfs import durability, sqlite
from cmsfs.cache import content_files, content_index, content_table


class LocalContents:
    """Brings local contents into the cache."""

    def __init__(
        self, db: sqlite.Database, known: content_index.ContentIndex, store: content_files.ContentFiles
    ) -> None:
        self._db = db
        self._contents = known
        self._files = store
        self._adopting: Counter[str] = Counter()  # a file is being moved in right now

    async def adopt(self, sha1: str, size: int, path: Path) -> None:
        """Make a finished file, whose bytes are on the disk, the dirty content.

        `path` is gone afterwards, and the new name is on the disk: the row may become durable at any moment
        by a commit or a checkpoint of others.  The caller records the row next, without another await
        between: `settle` relies on standing behind it in the queue of writes.
        Cancelled: nothing has happened, or everything.  May be repeated after a crash: a file that was
        moved already is fine.
        """
        target = self._files.dirty(sha1)
        row = content_table.find(self._db, sha1)
        self._adopting[sha1] += 1
        try:
            await trio.to_thread.run_sync(_move_in, path, target, size, row is not None and row.dirty)
            file = content_files.ContentFile(target)
            self._contents.replace(
                content_index.CachedContent(sha1, size, bits=None, verified=True, dirty=True, file=file)
            )
        finally:
            self._adopting[sha1] -= 1
            if not self._adopting[sha1]:
                del self._adopting[sha1]

    async def adopt_linked(self, found: Sequence[tuple[str, int, Path]]) -> None:
        """As `adopt`, of several small files (SHA-1, size, path), which keep their names besides; one fsync
        brings all the new names to the disk."""
        rows = [content_table.find(self._db, sha1) for sha1, _, _ in found]
        moves = [
            (path, self._files.dirty(sha1), size, row is not None and row.dirty)
            for (sha1, size, path), row in zip(found, rows, strict=True)
        ]
        self._adopting.update(sha1 for sha1, _, _ in found)
        try:
            await trio.to_thread.run_sync(_link_in, moves)
            for sha1, size, _ in found:
                file = content_files.ContentFile(self._files.dirty(sha1))
                self._contents.replace(
                    content_index.CachedContent(sha1, size, bits=None, verified=True, dirty=True, file=file)
                )
        finally:
            self._adopting.subtract(sha1 for sha1, _, _ in found)
            # Without those at zero.
            self._adopting = +self._adopting

    def disown(self, sha1: str) -> None:
        """Undo `adopt` after the transaction with its row has failed."""
        content, row = self._contents.find(sha1), content_table.find(self._db, sha1)
        if content is not None and content.dirty and (row is None or not row.dirty):
            self._contents.forget(content)
            content.file.path.unlink(missing_ok=True)

    async def settle(self, sha1: str) -> None:
        """Move a content that is marked clean to the cache, where it may be evicted.

        Does nothing if it has become dirty again.  Cancelled: it stays where it is until the next start.
        """
        await self.settle_all([sha1])

    async def settle_all(self, contents: Iterable[str]) -> None:
        """As `settle`, of several."""
        found = [self._contents.find(sha1) for sha1 in contents]
        dirty = [content for content in found if content is not None and content.dirty]
        if not dirty:
            return

        def are_clean(conn: sqlite.Connection) -> list[bool]:
            return [content_table.is_clean(conn, content.sha1) for content in dirty]

        # Asked in the queue of writes: behind the row of whatever was adopted before.
        for content, is_clean in zip(dirty, await self._db.write(are_clean), strict=True):
            if is_clean and not self._has_changed(content):
                await self._move_out(content)

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

        Interrupted before its row: it is a clean content in the drafts folder, as after an upload.
        """
        content = self._contents.find(sha1)
        if content is None or not content.complete or content.dirty:
            return content is not None and content.dirty
        # Beside the folder's other second names, which a start removes.
        copy = self._files.dirty(sha1).with_suffix(".sealed")
        await trio.to_thread.run_sync(_second_name, content.file.path, copy)
        await self.adopt(sha1, content.size, copy)

        def txn(conn: sqlite.Connection) -> bool:
            if not is_wanted(conn, sha1):
                return False
            content_table.record_dirty(conn, sha1, content.size)
            return True

        if not await self._db.write(txn):
            await self.settle(sha1)
            return False
        return True

    async def drop(self, sha1: str) -> None:
        """Remove a content that is marked clean and that nothing has any more; settle it if it is in use."""
        content = self._contents.find(sha1)
        if content is None or not content.dirty:
            return

        def is_clean(conn: sqlite.Connection) -> bool:
            return content_table.is_clean(conn, sha1)

        if not await self._db.write(is_clean) or self._has_changed(content):
            return
        if content.busy or self._contents.is_open(sha1):
            await self.settle(sha1)
            return
        # atomic: no await from the look at the content to the end.
        content.file.path.unlink(missing_ok=True)
        self._contents.removed(content)

    def _has_changed(self, content: content_index.CachedContent) -> bool:
        """Whether it was settled or adopted anew while we looked away."""
        return content.dropped or not content.dirty or content.sha1 in self._adopting

    async def _settle_by_copy(self, content: content_index.CachedContent, target: Path) -> None:
        source, copy = content.file.path, self._files.new_copy()
        try:
            await trio.to_thread.run_sync(shutil.copyfile, source, copy)
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        # atomic: no await from the look at the content to the end.
        if self._has_changed(content):
            copy.unlink()
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


def _link_in(moves: Sequence[tuple[Path, Path, int, bool]]) -> None:
    """Give each file its name as content, unless one is there (as recorded) that is of its size."""
    for path, target, size, here in moves:
        try:
            os.link(path, target)
        except FileExistsError:
            if here and target.stat().st_size == size:
                continue
            second_name = path.with_suffix(".sealed")
            second_name.unlink(missing_ok=True)
            os.link(path, second_name)
            second_name.rename(target)
            # Where both were names of one file the renaming has done nothing.
            second_name.unlink(missing_ok=True)
    if moves:
        durability.sync(moves[0][1].parent)


def _move_in(path: Path, target: Path, size: int, here: bool) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        path, found = target, target.stat().st_size
    if found != size:
        raise ValueError(f"{path} has {found} bytes, its content {size}")
    if here and path != target and target.exists() and target.stat().st_size == size:
        # Two files with the same bytes: the one that is recorded is not touched.
        path.unlink()
        return
    path.rename(target)
    durability.sync(target.parent)
