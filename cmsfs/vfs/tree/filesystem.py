"""The file system as async methods on inode numbers and names: the meaning of every operation.

`fuse.operations` calls this and translates; SEMANTICS.md in `cmsfs/vfs` documents each operation.  Metadata
comes from the replica, contents from `files`; each change is one local transaction.  Only the hydrator waits
for the network: for folders that are not listed and blocks that are not cached yet.

Rule: raises `OSError` only; expected absence is not logged.
"""

import errno
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence

from cmsfs.cache.blocks import BlockCache
from cmsfs.config import local_patterns
from cmsfs.config.abilities import ServiceOffers
from cmsfs.disk_reserve import DiskReserve
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.current_folder import CurrentFolder
from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map, permissions, ports
from cmsfs.vfs.heuristics import leftovers
from cmsfs.vfs.heuristics.local_files import LocalFiles
from cmsfs.vfs.heuristics.lockfiles import Watcher
from cmsfs.vfs.heuristics.mass_changes import MassChanges
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.tree import attributes, naming, renaming, symlinks
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr, Statfs
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.vfs.tree.dir_snapshots import Snapshots
from cmsfs.vfs.tree.entries import Entries
from cmsfs.vfs.tree.files import FileIO
from cmsfs.vfs.tree.handles import FolderHandle, Handles
from cmsfs.vfs.tree.limits import Quota, ServiceLimits
from cmsfs.vfs.tree.link_url import LinkUrls
from cmsfs.vfs.tree.reaper import Reaper
from cmsfs.vfs.tree.truncations import Truncations
from cmsfs.vfs.tree.xattrs import Xattrs


class Filesystem:
    """The file system over one account's tree."""

    def __init__(
        self,
        db: Database,
        blocks: BlockCache,
        drafts: Drafts,
        group_commit: GroupCommit,
        hydrator: ports.HydratorPort,
        push: ports.Wakeable,
        account: ports.AccountPort,
        *,
        settle_seconds: float,
        local_names: Iterable[str] = local_patterns.DEFAULT,
        exclude: Iterable[str] = (),
        confirm: Callable[[Ino], Awaitable[None]] | None = None,
        pins: ports.PinsPort | None = None,
        watcher: Watcher | None = None,
        item_details: ports.ItemDetailsPort | None = None,
        delete_guard: ports.DeleteGuardPort | None = None,
        folder_locks: ports.FolderLocksPort | None = None,
        favorites: ports.FavoritesPort | None = None,
        mass_changes: MassChanges | None = None,
        publish: Callable[[list[Change]], None] = lambda changes: None,
        reserve: DiskReserve | None = None,
        offers: ServiceOffers | None = None,
    ) -> None:
        """`publish` gets the effects of the kernel's own requests that the kernel does not know."""
        self._watcher, self._confirm = watcher, confirm
        self.inodes = Inodes()
        self.inodes.attach(db)
        self._quota, self._limits = Quota(db, account, reserve), ServiceLimits(db, offers or ServiceOffers())
        self.excluded = naming.ExcludedFolders(db, exclude)
        context = TreeContext(
            db=db,
            folder=CurrentFolder(db),
            blocks=blocks,
            drafts=drafts,
            group_commit=group_commit,
            hydrator=hydrator,
            push=push,
            inodes=self.inodes,
            quota=self._quota,
            limits=self._limits,
            excluded=self.excluded,
            settle_seconds=settle_seconds,
            publish=publish,
        )
        self._db, self._drafts, self._group_commit, self._account = db, drafts, group_commit, account
        self._folder, self._rights = context.folder, account.rights
        self._handles = Handles()
        self._snapshots = Snapshots(db, self.excluded.hides)
        self._reaper = Reaper(context)
        self._files = FileIO(context, self._handles, self._reaper, self._snapshots)
        # Operations on contents only are in `FileIO`.
        self.read, self.write = self._files.read, self._files.writes.write
        self.flush, self.release = self._files.flush, self._files.release
        self.handed_over, self.take_over = self._files.handed_over, self._files.take_over
        self._mass_changes = mass_changes
        self._entries = Entries(
            *(context, LocalFiles(local_names), self._allowed, delete_guard, folder_locks, mass_changes)
        )
        self._truncations = Truncations(context, self._files, self._entries, mass_changes)
        self._xattrs = Xattrs(
            db=db,
            blocks=blocks,
            item_details=item_details,
            favorites=favorites,
            pins=pins,
            change=self._entries.change,
            due=self._entries.due,
            allowed=self._allowed,
            limits=self._limits,
            link_urls=LinkUrls(self._files, self._node, self._allowed),
        )
        # To be called when something ends that may have been the last reference to a deleted node.
        self.reap_soon = self._reaper.reap_soon

    # ---- names ---------------------------------------------------------------------------------

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        """Return the child with this name; counts as a lookup."""
        naming.check_length(name)
        if name in (".", ".."):
            return self._looked_up(self.above(parent) if name == ".." else self._undeleted(parent))
        node = self._folder.find_clash(parent, name)
        if (node is None or node.name != name) and not self._folder.is_listed(parent):
            await self._entries.listed(parent)
            node = self._folder.find_clash(parent, name)
        if node is None or node.name != name or self.excluded.hides(node):
            raise errno_map.oserror(errno.ENOENT, name)
        # atomic: no await until the reply
        self.inodes.looked_up(node.ino)
        self.inodes.fresh.looked_up(node.ino, parent, name)
        return self._attributes(node)

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        """Subtract lookups, by inode and count, that the kernel has forgotten."""
        for ino, count in pairs:
            self.inodes.forgotten(ino, count)
            if not self.inodes.lookups(ino):
                self._files.forgotten(ino)
                self._reaper.reap_soon(ino)

    async def opendir(self, ino: Ino) -> int:
        """Open a folder and return its handle, after the folder's entries are listed."""
        if not (node := self._node(ino)).is_folder:
            raise errno_map.oserror(errno.ENOTDIR, node.name)
        await self._entries.listed(ino)
        await self._rights.learn(node)
        self.inodes.opened(ino)
        return self._handles.open_folder(ino)

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        """Return up to 256 entries after the cookie `after`; call `counted` with those delivered."""
        found = await self._snapshots.entries(fh, self._handles.folder(fh).ino, after)
        # atomic: no await until the reply
        timeout = attributes.timeout(is_online=self._account.is_online)
        return [DirEntry(name, self._attributes(node, timeout), cookie) for name, node, cookie in found]

    def above(self, ino: Ino) -> Ino:
        """Return the parent of a folder; the folder itself if it has none."""
        return tree.above(self._db, ino)

    def counted(self, inos: Sequence[Ino]) -> None:
        """Count a lookup for each of these entries, which were delivered with their attributes."""
        self.inodes.listed(inos)

    def releasedir(self, fh: int) -> None:
        handle = self._handles.remove(fh)
        self._snapshots.dropped(fh)
        if isinstance(handle, FolderHandle):
            self.inodes.closed(handle.ino)
            self._reaper.reap_soon(handle.ino)

    # ---- attributes ----------------------------------------------------------------------------

    def getattr(self, ino: Ino) -> Attributes:
        return self._attributes(self._node(ino))

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        """Change size, permission bits or times; owner and group can only be set to their current values."""
        node = self._node(ino)
        if changes.uid not in (None, os.getuid()) or changes.gid not in (None, os.getgid()):
            raise errno_map.oserror(errno.EPERM, "all files belong to the user who mounted the drive")
        self._check_writable(node)
        if changes.size is not None:
            if node.is_folder:
                raise errno_map.oserror(errno.EISDIR, node.name)
            await self._allowed(node, NodeRight.WRITE)
            await self._truncations.truncate(ino, changes.size, fh)
        if changes.mtime_ns is not None and node.kind is NodeKind.FILE:
            # A file's time is stored at the service, too; other attributes only locally.
            self._limits.check_time(node)
            await self._allowed(node, NodeRight.WRITE)
        if (changes.mode, changes.atime_ns, changes.mtime_ns) != (None, None, None):
            await self._set_mode_and_time(node, changes)
        return self._attributes(self._node(ino))

    async def _set_mode_and_time(self, node: Node, changes: SetAttr) -> None:
        if changes.mtime_ns is not None:
            self._files.forget_written_time(node)
        await self._entries.set_attributes(node.ino, changes)

    async def _allowed(self, node: Node, needed: NodeRight) -> None:
        """Raise PermissionError if the service does not allow this; EROFS if the drive is read-only."""
        if self._rights.is_read_only and needed & ~NodeRight.READ:
            self._check_writable(node)
        if NodeRight.WRITE in needed:
            self._limits.check_write(node)
        if (rights := await self._rights.learn(node)) is not permissions.ALL:
            permissions.check(node, rights, needed, self._rights.reason)

    def _check_writable(self, node: Node) -> None:
        if self._rights.is_read_only:
            raise errno_map.oserror(errno.EROFS, f"{node.name}: read-only; see `cmsfs status`")

    def _attributes(self, node: Node, timeout: float | None = None) -> Attributes:
        timeout = timeout or attributes.timeout(is_online=self._account.is_online)
        draft = self._files.live_draft(node) if node.draft is not None else None
        mode = permissions.mode(node, self._rights.on(node))
        if draft is None:
            return attributes.of_node(node, mode=mode, timeout=timeout)
        return attributes.of_node(node, mode=mode, timeout=timeout, size=draft.size, mtime_ns=draft.mtime_ns)

    def _undeleted(self, ino: Ino) -> Ino:
        if ino != ROOT and self._node(ino).parent is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return ino

    def _node(self, ino: Ino) -> Node:
        if (node := self._folder.find(ino)) is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return node

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        """Open the current version of a file; the handle keeps reading this version."""
        node = self._node(ino)
        if node.kind is NodeKind.FOLDER:
            raise errno_map.oserror(errno.EISDIR, node.name)
        await self._allowed(node, permissions.needed(flags))
        if flags & os.O_TRUNC and (node.parent is None or ino in self.inodes.fresh.known):
            await self._truncations.keep_unseen(ino, 0)
        opened = await self._files.open(ino, flags)
        if flags & os.O_ACCMODE and self._mass_changes is not None:
            self._mass_changes.opened(ino)
        if ino in self.inodes.fresh.known:
            self.inodes.fresh.opened(ino)
        return opened

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        """Create and open a file; counts as a lookup."""
        ino, draft_id = await self._entries.make(parent, name, NodeKind.FILE, mode, lazily=True)
        assert draft_id is not None
        draft = self._drafts.started(draft_id, ino, None)
        # atomic: no await until the reply
        node = self._node(ino)
        opened = self._files.created(node, draft, flags)
        self.inodes.looked_up(ino)
        self._watch(appeared=(parent, name))
        return opened, self._attributes(node)

    async def fsync(self, fh: int) -> None:
        """Return when written data is on the disk and, if so configured, at the service."""
        await self._files.writes.fsync(fh)
        if self._confirm is not None:
            await self._confirm(self._handles.file(fh).file.ino)

    async def fsyncdir(self, fh: int) -> None:
        """Return when all changes made so far are on the disk and, if so configured, at the service."""
        await self._group_commit.sync(None)
        if self._confirm is not None:
            await self._confirm(self._handles.folder(fh).ino)

    # ---- the tree ------------------------------------------------------------------------------

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        """Create a folder; counts as a lookup."""
        ino, _ = await self._entries.make(parent, name, NodeKind.FOLDER, mode)
        return self._looked_up(ino)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        """Create a local-only symbolic link; counts as a lookup."""
        return self._looked_up(await self._entries.symlink(parent, name, target))

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        """Create an empty file; counts as a lookup.  Raises EPERM for devices, pipes and sockets."""
        if not stat.S_ISREG(mode):
            raise errno_map.oserror(errno.EPERM, name)
        ino, _ = await self._entries.make(parent, name, NodeKind.FILE, mode)
        return self._looked_up(ino)

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        """Raise EPERM: an item at the service has only one name."""
        raise errno_map.oserror(errno.EPERM, new_name)

    async def readlink(self, ino: Ino) -> bytes:
        """Return the target of a symbolic link."""
        return symlinks.target(self._db, ino)

    def _looked_up(self, ino: Ino) -> Attributes:
        node = self._node(ino)
        self.inodes.looked_up(ino)
        return self._attributes(node)

    async def unlink(self, parent: Ino, name: str) -> None:
        """Remove a file from its folder; its contents are kept while a handle is open."""
        if (removed := await self._entries.remove(parent, name, folder=False)) is not None:
            self._reaper.reap_soon(removed)
        self._watch(vanished=(parent, name))

    async def rmdir(self, parent: Ino, name: str) -> None:
        """Remove an empty folder."""
        if (removed := await self._entries.remove(parent, name, folder=True)) is not None:
            self._reaper.reap_soon(removed)

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        """Rename or move a node, replacing an existing target as rename(2) does."""
        call = renaming.Rename(parent, name, new_parent, new_name, flags)
        displaced = await self._entries.rename(call)
        self._watch(vanished=(parent, name), appeared=(new_parent, new_name))
        if displaced is not None:
            self._reaper.reap_soon(displaced)

    def is_open_for_writing(self, ino: Ino) -> bool:
        """Whether a program has this file open for writing."""
        return self._handles.has_writer(ino)

    def _watch(
        self, *, vanished: tuple[Ino, str] | None = None, appeared: tuple[Ino, str] | None = None
    ) -> None:
        if self._watcher is not None:
            if vanished is not None:
                self._watcher.vanished(*vanished)
            if appeared is not None:
                self._watcher.appeared(*appeared)

    # ---- the rest ------------------------------------------------------------------------------

    async def statfs(self) -> Statfs:
        """Return the account's space; unlimited or unknown space is reported as very large."""
        return attributes.of_space(self._account.space())

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        return await self._xattrs.value(self._node(ino), name)

    async def listxattr(self, ino: Ino) -> list[str]:
        return self._xattrs.names(self._node(ino))

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> list[Change]:
        """Set an attribute; return the changes to publish."""
        self._quota.check_disk()
        return await self._xattrs.set(self._node(ino), name, value)

    async def removexattr(self, ino: Ino, name: str) -> None:
        await self._xattrs.remove(self._node(ino), name)

    # ---- housekeeping --------------------------------------------------------------------------

    async def finish(self) -> None:
        """Record the data written to open handles, which are never closed after an unmount."""
        await self._files.record_all()

    async def begin(self) -> None:
        """Apply changes of the configured local names since the last run."""
        await self._entries.review()

    async def tidy(self, *, days: int, keep: Callable[[Node], Awaitable[bool]]) -> list[Change]:
        """Remove local-only files unused for `days` days; return the changes to publish.

        `keep` is called first to save the contents of each elsewhere; files for which it returns False stay.
        """
        stale = [one for one in await leftovers.scan(self._db, days=days) if not self.inodes.opens(one.ino)]
        kept = [one for one in stale if await keep(self._node(one.ino))]
        if not kept:
            return []
        changes = await self._entries.change(lambda conn: leftovers.remove(conn, kept))
        for change in changes:
            self._reaper.reap_soon(change.ino)
        return changes

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Handle remote changes: the kernel may hold no reference to deleted nodes, so reap them."""
        for change in changes:
            if change.what is ChangeKind.GONE:
                self._reaper.reap_soon(change.ino)

    async def run(self) -> None:
        """Delete unlinked nodes without references; runs until cancelled."""
        await self._reaper.run()
