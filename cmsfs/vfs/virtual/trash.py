"""The service's trash as a folder: list it, move out to restore, delete to purge, move in to delete.

The listing is requested whenever a program opens the folder, and cached for a few seconds.  The daemon sends
the requests (`TrashPort`); this module assigns names and translates errors.

Rule: only `unlink` and `rmdir` in this folder purge items; items whose contents are not uploaded cannot be
moved into it.
"""

import errno
import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import trio

from cmsfs import errors
from cmsfs.cache.blocks import BlockCache
from cmsfs.replica import naming
from cmsfs.replica.nodes import ROOT, Ino, ItemKey, NodeKind, Remote
from cmsfs.vfs import errno_map
from cmsfs.vfs.ports import TrashPages, TrashPort
from cmsfs.vfs.tree import naming as vfs_naming
from cmsfs.vfs.tree import renaming
from cmsfs.vfs.virtual import trash_items
from cmsfs.vfs.virtual.node import VirtualFolder, VirtualNode

log = logging.getLogger(__name__)

# Lookups of names send at most one request in this time.
FRESH_SECONDS = 5.0
# Opening the folder refreshes the listing, but not more often than this.
OPENED_SECONDS = 0.5

PAGE = 256

# The service's error code for changes that a hold or a retention policy forbids.
POLICY = "forbidden_by_policy"


class TrashNames:
    """The names of items in the trash.

    Items keep their own names; of several with the same name, all but the first one seen get the time of
    their deletion appended and, if necessary, their id.  An assigned name is kept while the drive runs.
    """

    def __init__(self) -> None:
        self._of: dict[ItemKey, str] = {}
        # The deletion times: an item that is restored and deleted again may get another name.
        self._deleted: dict[ItemKey, datetime | None] = {}
        self._holders: dict[str, ItemKey] = {}

    def of(self, item: Remote) -> str:
        """Return the name of an item, assigned now if it has none."""
        at = item.item.trashed_at
        if self._deleted.get(item.key, at) != at:
            self.left(item.key)
        self._deleted[item.key] = at
        known = self._of.get(item.key)
        if known is None:
            known = next(name for name in self._wishes(item) if name not in self._holders)
            self._give(item.key, known)
        return known

    def wish(self, item_key: ItemKey, name: str) -> None:
        """Assign the name that a program has chosen for an item, if it is free."""
        if name not in self._holders and item_key not in self._of:
            self._give(item_key, name)

    def left(self, item_key: ItemKey) -> None:
        """Forget the name of an item that is no longer in the trash."""
        self._deleted.pop(item_key, None)
        if (name := self._of.pop(item_key, None)) is not None:
            del self._holders[name]

    def keep_only(self, keys: Iterable[ItemKey]) -> None:
        """Forget the names of all other items."""
        for gone in self._of.keys() - set(keys):
            self.left(gone)

    def _give(self, item_key: ItemKey, name: str) -> None:
        self._of[item_key] = name
        self._holders[name] = item_key

    @staticmethod
    def _wishes(item: Remote) -> list[str]:
        name = naming.file_name(item.kind, item.name)
        wishes = [name]
        if (at := item.item.trashed_at) is not None:
            wishes.append(naming.distinct(name, at.astimezone().strftime("%Y-%m-%d %H.%M.%S")))
        # Two kinds may have the same id.
        return [
            *wishes,
            naming.distinct(name, f"id {item.id}"),
            naming.distinct(name, f"{item.kind} {item.id}"),
        ]


class TrashContents:
    """The listing of the trash at one time, as far as it has been read."""

    def __init__(self, pages: TrashPages, names: TrashNames) -> None:
        self.began = trio.current_time()
        self.lines: list[tuple[str, Remote]] = []
        self.gone: set[ItemKey] = set()
        self.is_broken = False
        self._by_name: dict[str, Remote] = {}
        self._by_key: dict[ItemKey, Remote] = {}
        self._is_whole = False
        self._pages = pages
        self._names = names
        self._reading = trio.Lock()

    async def reach(self, count: int) -> None:
        """Read until `count` items are known, or all.  Raises errors of the request."""
        async with self._reading:
            while len(self.lines) < count and not self._is_whole:
                try:
                    page = await self._pages.next()
                except BaseException:
                    self.is_broken = True
                    raise
                for item in page:
                    self._add(item)
                self._is_whole = not page
                if self._is_whole:
                    self._names.keep_only(item.key for _, item in self.lines)

    def _add(self, item: Remote) -> None:
        name = self._names.of(item)
        # If the trash changes meanwhile, an item may be on two pages.
        if name not in self._by_name:
            self._by_name[name] = self._by_key[item.key] = item
            self.lines.append((name, item))

    async def find(self, name: str) -> Remote | None:
        while (found := self._by_name.get(name)) is None and not self._is_whole:
            await self.reach(len(self.lines) + 1)
        return None if found is None or found.key in self.gone else found

    async def find_key(self, key: ItemKey) -> Remote | None:
        while (found := self._by_key.get(key)) is None and not self._is_whole:
            await self.reach(len(self.lines) + 1)
        return None if key in self.gone else found


class TrashFolder(VirtualFolder):
    """The folder `.trash`."""

    mode = 0o700

    def __init__(self, bin_: TrashPort, blocks: BlockCache) -> None:
        super().__init__("trash")
        self._bin = bin_
        self._blocks = blocks
        self._names = TrashNames()
        self._contents: TrashContents | None = None

    # ---- looking -------------------------------------------------------------------------------

    async def opened(self) -> None:
        if await self._bin.settle() or (self._contents is not None and self._contents.gone):
            self.changed()
        self._current(within=OPENED_SECONDS)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        # A handle continues in the same listing, unless the folder was opened again meanwhile.
        contents = self._contents or self._current(within=FRESH_SECONDS)
        await contents.reach(position + PAGE)
        return [(name, self.node(item)) for name, item in contents.lines[position : position + PAGE]]

    async def child(self, name: str) -> VirtualNode:
        return self.node(await self.find(name))

    async def find(self, name: str) -> Remote:
        """Return the item with this name.  Raises FileNotFoundError."""
        found = await self._current(within=FRESH_SECONDS).find(name)
        if found is None:
            # It may have just been deleted, on the drive or elsewhere.
            came = await self._bin.settle()
            found = await self._current(within=0.0 if came else OPENED_SECONDS).find(name)
        if found is None:
            raise errno_map.oserror(errno.ENOENT, name)
        return found

    async def find_key(self, key: ItemKey) -> Remote | None:
        """Return the item with this key, if it is in the trash.  Raises errors of the request."""
        return await self._current(within=FRESH_SECONDS).find_key(key)

    def node(self, item: Remote) -> VirtualNode:
        return trash_items.build_node(item, self._bin.original_path, self._blocks)

    def _current(self, *, within: float) -> TrashContents:
        contents = self._contents
        if contents is None or contents.is_broken or trio.current_time() - contents.began >= within:
            contents = self._contents = TrashContents(self._bin.pages(), self._names)
        return contents

    def changed(self) -> None:
        """Discard the cached listing, because the trash may have changed."""
        self._contents = None

    # ---- changing ------------------------------------------------------------------------------

    async def remove(self, name: str, *, folder: bool) -> None:
        item = await self.find(name)
        if (item.kind is NodeKind.FOLDER) is not folder:
            raise errno_map.oserror(errno.ENOTDIR if folder else errno.EISDIR, name)
        with self._told("be permanently deleted"):
            await self._bin.purge(item)
        self._left(item)

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        item = await self.find(name)
        return (trash_items.TRASH, *item.key), await self.restore(item, parent, new_name, flags)

    async def restore(self, item: Remote, parent: Ino, new_name: str, flags: int) -> Ino:
        """Restore an item; return its node."""
        if flags & renaming.EXCHANGE:
            raise errno_map.oserror(errno.EINVAL, new_name)
        try:
            with self._told("be restored"):
                ino = await self._bin.restore(item, parent, new_name)
        except BaseException:
            # It may have been restored nevertheless: elsewhere, or its response was lost.
            self.changed()
            raise
        self._left(item)
        return ino

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        if flags & renaming.EXCHANGE:
            raise errno_map.oserror(errno.EINVAL, new_name)
        await self.put(parent, name, new_name)

    async def put(self, parent: Ino, name: str, wished: str) -> ItemKey | None:
        """Move an item of the drive to the trash, with the wished name if it is free there; return its key.

        None: the item is another user's, so that it was only removed from this account.
        """
        try:
            with self._told("be moved to the trash"):
                key = await self._bin.put(parent, name)
        finally:
            self.changed()
        if key is not None:
            self._names.wish(key, wished)
        return key

    def _left(self, item: Remote) -> None:
        self._names.left(item.key)
        if self._contents is not None:
            # Open handles keep their positions.
            self._contents.gone.add(item.key)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Translate errors of the service to `OSError`, with a log line that tells what to do."""
        try:
            yield
        except errors.Forbidden as error:
            reason = error.message or error.code
            log.warning("the service does not permit this to %s: %s", what, reason)
            number = errno.EPERM if error.code == POLICY else errno.EACCES
            raise errno_map.oserror(number, reason) from error
        except errors.Conflict as error:
            log.warning("this cannot %s: the name is taken there; move it under another one", what)
            raise errno_map.oserror(errno.EEXIST, str(error)) from error
        except errors.NotFound as error:
            log.warning("this cannot %s: it is no longer in the trash", what)
            self.changed()
            raise errno_map.oserror(errno.ENOENT, str(error)) from error


def drive_name(item: Remote, parent: Ino, name: str) -> tuple[str, str]:
    """Return the names for an item that a program restores to this folder: at the service and on the drive.
    Raises `OSError` if the name is not valid there."""
    if naming.file_name(item.kind, item.name, at_root=parent == ROOT) == name:
        return item.name, name
    vfs_naming.check(parent, name)
    wanted = name.removesuffix(naming.LINK_SUFFIX) if item.kind is NodeKind.LINK else name
    return wanted, naming.file_name(item.kind, wanted)
