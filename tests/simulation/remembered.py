"""The caches of a simulated kernel: dentries, attributes and pages, through which programs see a drive.

It follows FUSE's rules: dentries and attributes are valid until their timeout, pages until they are
invalidated or the size or mtime changes; a reply to a request sent before a change is discarded; a lookup
locks its folder, and an invalidation waits for the lock.  Lookups are counted, and forgotten when nothing
refers to the inode.
"""

import errno
import random
import stat
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from cmsfs.fuse.convert import NEGATIVE_TIMEOUT
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import Attributes
from cmsfs.vfs.virtual.router import Router

PAGE = 4096

# Longest delay of one invalidation in a slow kernel.
SLOW_SECONDS = 6.0


@dataclass
class Inode:
    """A cached inode."""

    ino: Ino
    lookups: int = 0
    references: int = 0  # references: dentries of it and in it, open files, calls
    attributes: Attributes | None = None
    until: float = -1.0
    version: int = 0
    size: int = 0
    pages: dict[int, bytes] = field(default_factory=dict)
    dropped: int = 0  # how often its pages were dropped


@dataclass
class File:
    """An open file of a program."""

    inode: Inode
    fh: int
    flags: int
    direct: bool
    name: str


class KernelCache:
    """The cached dentries, inodes and pages of one drive."""

    def __init__(
        self, drive: Router, counts: Inodes, now: Callable[[], float], chance: random.Random
    ) -> None:
        self._drive = drive
        self._counts = counts
        self._now = now
        self._chance = chance
        self._inodes: dict[Ino, Inode] = {ROOT: Inode(ROOT, references=1)}
        self._names: dict[tuple[Ino, str], tuple[Ino, float]] = {}
        self._locks: defaultdict[Ino, trio.Lock] = defaultdict(trio.Lock)
        self._version = 0
        self.calls: Counter[str] = Counter()
        self.is_slow = False
        self.invalidating = 0  # calls of `invalidate` that have not ended

    def lookups(self) -> dict[Ino, int]:
        """Return the lookup count of each inode that has not been forgotten."""
        return {ino: inode.lookups for ino, inode in self._inodes.items() if inode.lookups}

    # ---- caches ----

    def _inode(self, ino: Ino) -> Inode:
        if ino not in self._inodes:
            self._inodes[ino] = Inode(ino)
        return self._inodes[ino]

    def _reference(self, ino: Ino, by: int) -> None:
        self._inode(ino).references += by
        if by < 0:
            self._forget_unused(ino)

    def _forget_unused(self, ino: Ino) -> None:
        inode = self._inodes.get(ino)
        if inode is not None and inode.references <= 0 and ino != ROOT:
            del self._inodes[ino]
            if inode.lookups:
                self._drive.forget([(ino, inode.lookups)])

    def _drop_name(self, parent: Ino, name: str) -> None:
        if (found := self._names.pop((parent, name), None)) is not None:
            if found[0]:
                self._reference(found[0], -1)
            self._reference(parent, -1)

    def _set_name(self, parent: Ino, name: str, ino: Ino, seconds: float) -> None:
        self._inode(parent).references += 1
        if ino:
            self._inode(ino).references += 1
        self._drop_name(parent, name)
        self._names[parent, name] = (ino, self._now() + seconds)

    def shrink(self) -> None:
        """Drop random dentries and pages, as under memory pressure."""
        for key in list(self._names):
            if self._chance.random() < 0.5:
                self._drop_name(*key)
        for inode in self._inodes.values():
            if self._chance.random() < 0.5:
                self._drop_pages(inode)

    def drop_all_pages(self) -> None:
        """Drop the pages of all inodes."""
        for inode in self._inodes.values():
            self._drop_pages(inode)

    def _drop_pages(self, inode: Inode) -> None:
        inode.pages.clear()
        inode.dropped += 1

    def _store_attributes(self, found: Attributes, asked_at: int) -> Inode:
        """Store the attributes of a reply, unless the inode changed after the request (`asked_at`)."""
        inode = self._inode(found.ino)
        if inode.attributes is not None and inode.version > asked_at:
            return inode
        before = inode.attributes
        size = inode.size
        self._version += 1
        inode.version, inode.attributes, inode.size = self._version, found, found.size
        inode.until = self._now() + found.timeout
        if before is not None and (size != found.size or before.mtime_ns != found.mtime_ns):
            self._drop_pages(inode)
        return inode

    def _expire(self, inode: Inode) -> None:
        inode.until = -1.0

    def _mark_changed(self, inode: Inode) -> None:
        """Mark a local change, so that replies to earlier requests are discarded."""
        self._version += 1
        inode.version = self._version
        self._expire(inode)

    # ---- invalidations ----

    async def invalidate(self, changes: list[Change]) -> list[Change]:
        """Apply invalidations as the notifier's thread does; return those of unknown inodes."""
        self.invalidating += 1
        try:
            return await self._invalidate(changes)
        finally:
            self.invalidating -= 1

    async def _invalidate(self, changes: list[Change]) -> list[Change]:
        unknown = []
        for change in changes:
            if self._chance.random() < (0.3 if self.is_slow else 0.1):
                await trio.sleep(self._chance.random() * (SLOW_SECONDS if self.is_slow else 1))
            await trio.lowlevel.checkpoint()
            if change.what in (ChangeKind.ENTRY, ChangeKind.GONE) and change.parent is not None:
                async with self._locks[change.parent]:
                    self._drop_name(change.parent, change.name)
                continue
            inode = self._inodes.get(change.ino)
            if inode is None or (not inode.lookups and change.ino != ROOT):
                unknown.append(change)
                continue
            attributes_only = change.what is not ChangeKind.CONTENT or self._counts.opens(change.ino) > 0
            if change.what is ChangeKind.CONTENT and self._counts.is_refreshed(change.ino):
                continue
            self._mark_changed(inode)
            if not attributes_only:
                self._drop_pages(inode)
        return unknown

    # ---- names ----

    async def _lookup(self, parent: Ino, name: str, *, fresh: bool = False) -> Inode:
        known = self._names.get((parent, name))
        is_asked = fresh or self._chance.random() < 0.05  # a kernel may revalidate at any time
        if known is not None and known[1] > self._now() and not is_asked:
            if not known[0]:
                raise FileNotFoundError(errno.ENOENT, name)
            return self._inodes[known[0]]
        async with self._locks[parent]:
            asked_at = self._version
            self.calls["lookup"] += 1
            self._reference(parent, 1)
            try:
                found = await self._drive.lookup(parent, name)
                if self._chance.random() < 0.2:
                    # The inode may be forgotten before the reply arrives.
                    await trio.lowlevel.checkpoint()
                    for key in [one for one, (ino, _) in self._names.items() if ino == found.ino]:
                        self._drop_name(*key)
            except errno_map.TransientEnoent:
                self._drop_name(parent, name)
                raise
            except FileNotFoundError:
                self._set_name(parent, name, 0, NEGATIVE_TIMEOUT)
                raise
            finally:
                self._reference(parent, -1)
            return self._add_dentry(parent, name, found, asked_at)

    def _add_dentry(self, parent: Ino, name: str, found: Attributes, asked_at: int) -> Inode:
        """Store the reply of a lookup, which counts as one lookup."""
        inode = self._store_attributes(found, asked_at)
        inode.lookups += 1
        self._set_name(parent, name, found.ino, found.timeout)
        return inode

    async def _walk(self, parts: list[str], *, fresh: bool = False) -> Inode:
        inode = self._inodes[ROOT]
        for place, name in enumerate(parts):
            inode = await self._lookup(inode.ino, name, fresh=fresh)
            if place < len(parts) - 1 and inode.attributes and not stat.S_ISDIR(inode.attributes.mode):
                raise NotADirectoryError(errno.ENOTDIR, name)
        return inode

    async def _retry_stale(self, call: Callable[[bool], object]) -> object:
        """Run the call, and once more without cached dentries after `ESTALE`, as path walking does."""
        try:
            return await call(False)  # type: ignore[misc]
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        return await call(True)  # type: ignore[misc]

    async def _resolve_parent(self, path: str, fresh: bool) -> tuple[Inode, str]:
        *above, name = path.strip("/").split("/")
        folder = await self._walk(above, fresh=fresh)
        if folder.attributes is not None and not stat.S_ISDIR(folder.attributes.mode):
            raise NotADirectoryError(errno.ENOTDIR, path)
        return folder, name
