"""Directory entries: create, unlink, rmdir, rename.

`Filesystem` forwards the calls of programs to this module; each is one local transaction, which also records
the operations for the service.

Rule: raises `OSError` only, before anything is changed.
"""

import errno
import stat
from collections.abc import Awaitable, Callable
from sqlite3 import Connection
from typing import TypeVar

from cmsfs.journal import ops
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import tree
from cmsfs.replica.merge import deletions
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.heuristics import local_files, save_patterns
from cmsfs.vfs.heuristics.local_files import LocalFiles
from cmsfs.vfs.heuristics.mass_changes import MassChanges
from cmsfs.vfs.heuristics.save_patterns import SavePatterns
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.ports import DeleteGuardPort, FolderLocksPort
from cmsfs.vfs.tree import attributes, naming, renaming, shared_folder, symlinks
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.tree.context import TreeContext

T = TypeVar("T")


class Entries:
    """Changes of directory entries."""

    def __init__(
        self,
        context: TreeContext,
        local_names: LocalFiles,
        allowed: Callable[[Node, NodeRight], Awaitable[None]],
        delete_guard: DeleteGuardPort | None = None,
        folder_locks: FolderLocksPort | None = None,
        mass_changes: MassChanges | None = None,
    ) -> None:
        self._mass_changes = mass_changes
        self._delete_guard = delete_guard
        self._folder_locks = folder_locks
        self._db, self._folder = context.db, context.folder
        self._group_commit = context.group_commit
        self._hydrator = context.hydrator
        self._push = context.push
        self._quota, self._limits = context.quota, context.limits
        self._excluded = context.excluded
        self._local_names = local_names
        self._allowed = allowed
        self._save_patterns = SavePatterns()
        self._settle_ns = int(context.settle_seconds * 10**9)
        # The file that was made last: until it is closed, nothing of it is promised.
        self._newest: Ino | None = None

    async def listed(self, folder: Ino, node: Node | None = None) -> None:
        """Wait until the folder is listed; `node`: the folder's node, if the caller has it."""
        node = node or self._folder.find(folder)
        if node is not None and node.is_shelf:
            folder = ROOT  # shared items are listed with the root
        if not self._folder.is_listed(folder):
            await self._hydrator.listing(folder)

    # ---- creating ------------------------------------------------------------------------------

    async def make(
        self, parent: Ino, name: str, kind: NodeKind, mode: int, *, lazily: bool = False
    ) -> tuple[Ino, int | None]:
        """Create a file or folder; return its ino and, for a file, the id of its empty draft.

        `lazily`: it will be written or closed, and only then survives a killed process.
        """
        left = self._save_patterns.who_left(parent, name)

        def insert(conn: Connection, ino: Ino, due: int, now: int, local: bool) -> None:
            if kind is NodeKind.FOLDER:
                tree.mark_listed(conn, ino, at=now // 10**9)
            if not local:
                what = ops.OpKind.MKDIR if kind is NodeKind.FOLDER else ops.OpKind.UPLOAD
                ops.record_first(conn, ino, what, due_ns=due)
            if kind is not NodeKind.FOLDER:
                save_patterns.bring_back(conn, self._local_names, ino, left, due_ns=due)

        ino, draft = await self._insert(parent, name, kind, mode, insert, lazily=lazily)
        if kind is NodeKind.FILE:
            self._newest = ino
            self._save_patterns.note_birth(ino)
            if self._mass_changes is not None:
                self._mass_changes.made(parent, name, ino)
        elif self._mass_changes is not None:
            self._mass_changes.made_folder(ino)
        return ino, draft

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Ino:
        """Create a local-only symbolic link; return its ino."""

        def insert(conn: Connection, ino: Ino, due: int, now: int, local: bool) -> None:
            symlinks.insert(conn, ino, target)

        ino, _ = await self._insert(parent, name, NodeKind.SYMLINK, symlinks.MODE, insert)
        return ino

    async def _insert(
        self,
        parent: Ino,
        name: str,
        kind: NodeKind,
        mode: int,
        insert: Callable[[Connection, Ino, int, int, bool], None],
        *,
        lazily: bool = False,
    ) -> tuple[Ino, int | None]:
        naming.check(parent, name)
        self._quota.check_disk()
        at = self._db.ended
        if (above := self._folder.find(parent)) is not None:
            is_save = self._save_patterns.who_left(parent, name) is not None
            shared_folder.check_making(above, name, kind, self._local_names, is_save=is_save)
            if kind is NodeKind.FOLDER:
                self._limits.check_new_folder(name, local=self._local_names.covers(above, name, kind))
            await self._allowed(above, NodeRight.WRITE)
        await self.listed(parent, above)
        due, now = self.due(), clock.time_ns()
        # Mostly the program has just looked the name up.
        known_at, is_free = self._db.ended, self._folder.is_absent(parent, name)
        path = self._folder.path(parent) if kind is NodeKind.FILE else None

        def txn(conn: Connection) -> tuple[Ino, int | None]:
            folder = _folder(conn, parent, above if self._db.ended == at else None)
            is_so = self._db.ended == known_at
            holder = None if is_so and is_free else tree.child_at(conn, parent, name)
            if holder is not None:
                self._excluded.check(holder)
                raise naming.name_clash(name, holder.name)
            local = self._local_names.covers(folder, name, kind)
            # A folder inherits the set-group-ID bit of its parent.
            bits = mode & 0o7777 | (folder.mode & stat.S_ISGID if kind is NodeKind.FOLDER else 0)
            draft = Drafts.insert(conn, None, None) if kind is NodeKind.FILE else None
            ino = tree.insert(
                conn,
                parent,
                name,
                kind,
                now_ns=now,
                mode=bits,
                local=local,
                draft=draft,
                path=path if is_so else None,
            )
            tree.touch(conn, parent, now)
            insert(conn, ino, due, now, local)
            return ino, draft

        return await self.change(txn, lazily=lazily, touches=(parent, now))

    # ---- removing ------------------------------------------------------------------------------

    async def remove(self, parent: Ino, name: str, *, folder: bool) -> Ino | None:
        """Remove a file or an empty folder; return the detached node, if there is one.

        Raises `OSError`: EPERM if the service does not allow it.
        """
        await self.listed(parent)
        at, node = self._db.ended, tree.find_child(self._db, parent, name)
        if node is not None:
            shared_folder.check_removal(node)
            self._limits.check_removal(node)
        if node is not None and folder and node.is_folder:
            await self.listed(node.ino)
        follower = self._follower(node.ino) if node is not None else None
        is_left = node is not None and follower is None and await self._is_left(node)
        if node is not None:
            await self._allowed(node, NodeRight.LEAVE if is_left else NodeRight.DELETE)
            if folder and not is_left:
                await self._check_unlocked(node, removes=True)
        asked, gone_as = node, None
        if node is not None and not (folder or is_left or follower):
            gone_as = await self._delete_now(node)
        due, now = self.due(), clock.time_ns()

        def txn(conn: Connection) -> Ino | None:
            node = asked if self._db.ended == at else _same_child(conn, parent, name, asked)
            if node is None and gone_as is not None:
                return None  # its deletion by us was reported sooner than answered
            if node is None or node.name != name:
                raise errno_map.oserror(errno.ENOENT, name)
            if node.is_folder is not folder:
                raise errno_map.oserror(errno.ENOTDIR if folder else errno.EISDIR, name)
            if folder and tree.has_children(conn, node.ino):
                raise errno_map.oserror(errno.ENOTEMPTY, name)
            tree.touch(conn, parent, now)
            if save_patterns.stepped_aside(conn, node):
                return None
            tree.detach(conn, node.ino)
            if gone_as is not None and asked is not None and asked.remote_id == node.remote_id:
                ops.drop(conn, node.ino, *ops.OpKind)
                deletions.mark_deleted(conn, node.ino, seen=gone_as)
            else:
                save_patterns.remove(conn, node, follower, due_ns=due)
            return node.ino

        is_alone = follower is None and gone_as is None and not folder
        removed = await self.change(txn, touches=(parent, now) if is_alone else None)
        if removed is not None and not folder:
            self._save_patterns.note_left(removed, parent, name)
        if removed is not None and self._mass_changes is not None and node is not None:
            self._mass_changes.removed(node)
        return removed

    async def _check_unlocked(self, node: Node, *, removes: bool) -> None:
        """Raise EPERM for a folder that a lock at the service protects."""
        if self._folder_locks is not None and node.is_folder and node.remote_id is not None:
            await self._folder_locks.check(node, removes=removes)

    async def _is_left(self, node: Node) -> bool:
        """Whether another user shares the node, so that removing it only removes it from this account."""
        return self._delete_guard is not None and await self._delete_guard.is_left(node)

    async def _delete_now(self, node: Node) -> int | None:
        """In case of doubt move the file to the service's trash, and return the sequence that it had before;
        None: the journal does it."""
        if self._delete_guard is None or not await self._delete_guard.is_doubtful(node):
            return None
        return await self._delete_guard.ask(node)

    def _follower(self, ino: Ino) -> save_patterns.Follower | None:
        """Return the file that has just taken the former name of this node."""
        place = self._save_patterns.place_left(ino)
        node = tree.find_child(self._db, *place) if place is not None else None
        if node is None or node.ino == ino:
            return None  # no other file came, or the service rejected the rename
        return save_patterns.Follower(node.ino, self._save_patterns.is_newborn(node.ino))

    # ---- renaming ------------------------------------------------------------------------------

    async def rename(self, call: renaming.Rename) -> Ino | None:
        """Perform a rename; return the node that it replaced, if any."""
        if call.flags & ~(renaming.NOREPLACE | renaming.EXCHANGE):
            raise errno_map.oserror(errno.EINVAL, "unknown rename flags")
        for folder in {call.old_parent, call.parent}:
            await self.listed(folder)
        at, node = self._db.ended, tree.find_child(self._db, call.old_parent, call.old_name)
        if node is None:
            raise errno_map.oserror(errno.ENOENT, call.old_name)
        naming.check(call.parent, call.name)
        clash = self._folder.find_clash(call.parent, call.name)
        target = clash if clash is not None and clash.name == call.name else None
        if target is not None and target.is_folder:
            await self.listed(target.ino)
        self._excluded.check(target)
        self._check_limits(call, node, target)
        recently = self._save_patterns.is_newborn(node.ino)
        await self._allowed(node, NodeRight.RENAME if call.parent == call.old_parent else NodeRight.DELETE)
        if call.parent != call.old_parent and (into := tree.find(self._db, call.parent)) is not None:
            await self._allowed(into, NodeRight.WRITE)
        if target is not None and target.ino != node.ino:
            await self._allowed(target, NodeRight.WRITE if recently else NodeRight.DELETE)
        await self._check_unlocked(node, removes=False)
        if target is not None and target.ino != node.ino:
            await self._check_unlocked(target, removes=not call.flags & renaming.EXCHANGE)
        left = self._save_patterns.who_left(call.parent, call.name)
        due, now, known = self.due(), clock.time_ns(), self._folder.find(call.parent)

        def txn(conn: Connection) -> Ino | None:
            is_so = self._db.ended == at
            into = _folder(conn, call.parent, known if is_so else None)
            moved = renaming.Moved(
                node=node if is_so else _same_child(conn, call.old_parent, call.old_name, node),
                target=clash if is_so else _same_child(conn, call.parent, call.name, target),
                old=into if call.old_parent == call.parent else tree.get(conn, call.old_parent),
                new=into,
            )
            return renaming.apply(
                conn,
                call,
                moved,
                self._local_names,
                due_ns=due,
                now_ns=now,
                was_born_here=recently,
                left=left,
            )

        is_alone = clash is None and left is None and not node.is_folder and call.parent == call.old_parent
        displaced = await self.change(txn, touches=(call.parent, now) if is_alone else None)
        if call.flags & renaming.EXCHANGE and target is not None:
            self._save_patterns.note_left(target.ino, call.parent, call.name)
        self._save_patterns.note_left(node.ino, call.old_parent, call.old_name)
        if self._mass_changes is not None:
            swaps = bool(call.flags & renaming.EXCHANGE)
            self._mass_changes.renamed(node, call.name, target, swaps=swaps)
        return displaced

    def _check_limits(self, call: renaming.Rename, node: Node, target: Node | None) -> None:
        self._limits.check_move(node)
        if target is not None and target.ino != node.ino:
            is_swap = call.flags & renaming.EXCHANGE
            (self._limits.check_move if is_swap else self._limits.check_replaced)(target)
        if not (node.is_folder and node.local):
            return
        if (into := tree.find(self._db, call.parent)) is not None:
            stays_local = self._local_names.covers(into, call.name, node.kind)
            self._limits.check_new_folder(call.name, local=stays_local)

    # ---- local-only files ----------------------------------------------------------------------

    async def review(self) -> None:
        """Apply changes of the local patterns since the last run."""
        if await self.change(lambda conn: local_files.reapply_patterns(conn, self._local_names)):
            self._push.wake()

    # ---- committing ----------------------------------------------------------------------------

    async def change(
        self,
        txn: Callable[[Connection], T],
        *,
        lazily: bool = False,
        touches: tuple[Ino, int] | None = None,
        was: Node | None = None,
        now: Node | None = None,
    ) -> T:
        """Commit a change of the tree, schedule its group commit, and wake the push.

        `touches`: all that it does to folders is to set the times of this one; `was`, `now`: and all that it
        does to this file.
        """
        began = -1

        def noted(conn: Connection) -> T:
            nonlocal began
            began = self._db.ended
            return txn(conn)

        result = await self._db.write_short(noted, lazily=lazily)
        if touches is not None:
            self._folder.keep(began, *touches, was=was, now=now)
        self._group_commit.note()
        self._push.wake()
        return result

    async def set_attributes(self, ino: Ino, changes: SetAttr) -> None:
        """Set permission bits and times; a changed modification time is sent to the service."""
        due, at, node, now = self.due(), self._db.ended, self._folder.find(ino), clock.time_ns()
        mode = changes.mode & 0o7777 if changes.mode is not None else None
        atime_ns = attributes.clamped_time(changes.atime_ns)
        mtime_ns = attributes.clamped_time(changes.mtime_ns)

        def txn(conn: Connection) -> None:
            node_rows.set_attributes(conn, ino, mode=mode, atime_ns=atime_ns, mtime_ns=mtime_ns, ctime_ns=now)
            if changes.mtime_ns is not None:
                ops.record_touch(conn, ino, due_ns=due, node=node if self._db.ended == at else None)

        # As `cp -a` and `tar` do before they close a new file.
        lazily = self._db.is_open and ino == self._newest
        if node is None or node.is_folder:
            await self.change(txn, lazily=lazily)
            return
        changed = node._replace(
            mode=node.mode if mode is None else mode,
            atime_ns=node.atime_ns if atime_ns is None else atime_ns,
            mtime_ns=node.mtime_ns if mtime_ns is None else mtime_ns,
            ctime_ns=now,
        )
        await self.change(txn, lazily=lazily, touches=(ino, 0), was=node, now=changed)

    def due(self) -> int:
        """Return when a change made now is due to be sent, in nanoseconds."""
        return clock.time_ns() + self._settle_ns


def _folder(conn: Connection, ino: Ino, known: Node | None = None) -> Node:
    """Return a folder that has a place; `known`: its row, if the caller has it as it is now."""
    folder = known or tree.get(conn, ino)
    if folder.parent is None and ino != ROOT:
        raise errno_map.oserror(errno.ENOENT, folder.name)
    return folder


def _same_child(conn: Connection, parent: Ino, name: str, asked: Node | None) -> Node | None:
    """Return the node with this name.

    Raises `OSError`: ESTALE if a remote change has given the name to a node other than `asked` since it was
    looked up.  On ESTALE the kernel looks up the name again and repeats the call.
    """
    node = tree.child_at(conn, parent, name)
    if node is not None and node.name == name and (asked is None or node.ino != asked.ino):
        raise errno_map.oserror(errno.ESTALE, f"{name} is another node than a moment ago")
    return node
