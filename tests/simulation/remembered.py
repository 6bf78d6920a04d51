"""A small kernel: what programs see of a drive through names, attributes and pages that are remembered.

It keeps FUSE's rules: a name and an inode's attributes hold for as long as the drive said, pages until the
drive says otherwise, or the size or the time of change turns out to be another one; an answer that was asked
for before something changed is thrown away; a folder's names stand still while one of them is looked up, and
an invalidation waits for that.  Lookups are counted, and given back when nothing remembers the inode.
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

# How long a kernel whose inodes are busy is in hearing of one change.
SLOW_SECONDS = 6.0


@dataclass
class Inode:
    """What is remembered of one."""

    ino: Ino
    lookups: int = 0
    held: int = 0  # by names, by what is in it, by open files
    attributes: Attributes | None = None
    until: float = -1.0
    version: int = 0
    size: int = 0
    pages: dict[int, bytes] = field(default_factory=dict)
    dropped: int = 0  # how often pages were


@dataclass
class File:
    """An open file of a program."""

    inode: Inode
    fh: int
    flags: int
    direct: bool
    name: str


class Remembered:
    """Names, inodes and pages of one drive."""

    def __init__(
        self, drive: Router, counts: Inodes, now: Callable[[], float], chance: random.Random
    ) -> None:
        self._drive = drive
        self._counts = counts
        self._now = now
        self._chance = chance
        self._inodes: dict[Ino, Inode] = {ROOT: Inode(ROOT, held=1)}
        self._names: dict[tuple[Ino, str], tuple[Ino, float]] = {}
        self._locks: defaultdict[Ino, trio.Lock] = defaultdict(trio.Lock)
        self._version = 0
        self.calls: Counter[str] = Counter()
        self.is_slow = False

    def lookups(self) -> dict[Ino, int]:
        """How many of each inode have not been given back."""
        return {ino: inode.lookups for ino, inode in self._inodes.items() if inode.lookups}

    # ---- what is remembered ----

    def _inode(self, ino: Ino) -> Inode:
        if ino not in self._inodes:
            self._inodes[ino] = Inode(ino)
        return self._inodes[ino]

    def _hold(self, ino: Ino, by: int) -> None:
        self._inode(ino).held += by
        if by < 0:
            self._let_go(ino)

    def _let_go(self, ino: Ino) -> None:
        inode = self._inodes.get(ino)
        if inode is not None and inode.held <= 0 and ino != ROOT:
            del self._inodes[ino]
            if inode.lookups:
                self._drive.forget([(ino, inode.lookups)])

    def _drop_name(self, parent: Ino, name: str) -> None:
        if (found := self._names.pop((parent, name), None)) is not None:
            if found[0]:
                self._hold(found[0], -1)
            self._hold(parent, -1)

    def _set_name(self, parent: Ino, name: str, ino: Ino, seconds: float) -> None:
        self._inode(parent).held += 1
        if ino:
            self._inode(ino).held += 1
        self._drop_name(parent, name)
        self._names[parent, name] = (ino, self._now() + seconds)

    def shrink(self) -> None:
        """Memory is short: some of what is remembered goes."""
        for key in list(self._names):
            if self._chance.random() < 0.5:
                self._drop_name(*key)
        for inode in self._inodes.values():
            if self._chance.random() < 0.5:
                self._drop_pages(inode)

    def _drop_pages(self, inode: Inode) -> None:
        inode.pages.clear()
        inode.dropped += 1

    def _took(self, found: Attributes, asked_at: int) -> Inode:
        """An answer about an inode, asked for when the count of versions was this."""
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

    def _doubt(self, inode: Inode) -> None:
        inode.until = -1.0

    def _changed(self, inode: Inode) -> None:
        """We have changed it: answers that are on their way are older."""
        self._version += 1
        inode.version = self._version
        self._doubt(inode)

    # ---- what the drive tells ----

    async def tell(self, changes: list[Change]) -> list[Change]:
        """As the notifier's thread does; what is about an inode that is not known comes back."""
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
            self._changed(inode)
            if not attributes_only:
                self._drop_pages(inode)
        return unknown

    # ---- names ----

    async def _lookup(self, parent: Ino, name: str, *, fresh: bool = False) -> Inode:
        known = self._names.get((parent, name))
        is_asked = fresh or self._chance.random() < 0.05  # as may be done at any time
        if known is not None and known[1] > self._now() and not is_asked:
            if not known[0]:
                raise FileNotFoundError(errno.ENOENT, name)
            return self._inodes[known[0]]
        async with self._locks[parent]:
            asked_at = self._version
            self.calls["lookup"] += 1
            self._hold(parent, 1)
            try:
                found = await self._drive.lookup(parent, name)
                if self._chance.random() < 0.2:
                    # While the answer is on its way, what it is about may be given back.
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
                self._hold(parent, -1)
            return self._met(parent, name, found, asked_at)

    def _met(self, parent: Ino, name: str, found: Attributes, asked_at: int) -> Inode:
        """The drive has told what the name stands for, and counts a lookup."""
        inode = self._took(found, asked_at)
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

    async def _retried(self, call: Callable[[bool], object]) -> object:
        """As path walking does: once more, without what is remembered, where an inode is stale."""
        try:
            return await call(False)  # type: ignore[misc]
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        return await call(True)  # type: ignore[misc]

    async def _place(self, path: str, fresh: bool) -> tuple[Inode, str]:
        *above, name = path.strip("/").split("/")
        folder = await self._walk(above, fresh=fresh)
        if folder.attributes is not None and not stat.S_ISDIR(folder.attributes.mode):
            raise NotADirectoryError(errno.ENOTDIR, path)
        return folder, name
