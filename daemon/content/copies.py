"""Copies files and folders at the service, of any size, without downloads or uploads.

The service copies what it has, so pending changes of the source are uploaded first.  A copy has the
description and tags of its original, and the metadata that its template marks for copying.

Without a connection a file is copied locally at once and recorded with the version that was meant: the
service later copies that version, whatever the original is by then.  A folder is then created, with a copy of
each of its files: recorded as one copy of the folder, the service would copy its later contents, not the
intended ones.

Rule: what cannot be copied completely is not copied.
"""

import errno
from dataclasses import dataclass
from sqlite3 import Connection
from typing import NamedTuple

from cmsfs import errors
from cmsfs.journal import ops, queue
from cmsfs.models.content import items
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind, remote_from_item
from cmsfs.replica.rows import copy_sources, node_rows, past_versions
from cmsfs.replica.rows.copy_sources import CopySource
from cmsfs.runtime import clock
from cmsfs.vfs import permissions
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.ports import AccountPort
from cmsfs.vfs.tree import naming
from daemon.content.arrivals import arrived
from daemon.fetch import path_lookup
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher

# Time limit for pending changes to be uploaded first.
SEND_SECONDS = 60.0

_WHY_NOT = {
    errno.EACCES: "you have no permission to create items in it",
    errno.EBUSY: "it is not uploaded yet",
    errno.EEXIST: "an item with this name exists",
    errno.EIO: "it is not uploaded yet",
    errno.EROFS: "the drive is read-only",
    errno.ETIMEDOUT: "it is not uploaded yet",
}


class _Target(NamedTuple):
    folder: Node
    name: str


@dataclass(frozen=True, slots=True)
class RemoteCopies:
    """Copies on behalf of the user.  All methods raise `UserError` with a sentence, and `CmsfsError`."""

    context: PushContext
    push: Dispatcher
    account: AccountPort

    async def copy(self, source: str, destination: str) -> str:
        """Copy the item at a path into a folder, or to a new name; return the path of the copy."""
        if not self.context.profile.copies:
            raise errors.UserError("This service cannot copy; `cp` reads the file and uploads it again.")
        node = await self._find(source)
        if node.ino == ROOT or node.local or node.kind not in (NodeKind.FILE, NodeKind.FOLDER):
            raise errors.UserError(f"{source} is not a file or folder that the service can copy; use `cp`.")
        target = await self._target(node, destination)
        path = f"{tree.path(self.context.db, target.folder.ino).rstrip('/')}/{target.name}"
        try:
            rights = await self.account.rights.learn(node)
            permissions.check(node, rights, NodeRight.READ)
        except OSError:
            raise errors.UserError(f"{source} was not copied: you have no permission to read it.") from None
        if not self.context.health.can_ask:
            await self._record(node, source, target)
            return path
        node = await self._sent(node, source)
        folder = await self._writable(target)
        assert node.remote_id is not None
        assert folder.remote_id is not None
        try:
            with (
                self.context.remote_updates.making(folder.remote_id, target.name),
                self.context.health.request("copy"),
            ):
                made = await self._make(node, node.remote_id, folder.remote_id, target.name)
        except errors.Conflict:
            raise errors.UserError(f"{path} already exists.") from None
        await arrived(self.context, remote_from_item(made))
        return path

    async def _record(self, node: Node, source: str, target: _Target) -> None:
        """Copy an item locally, for the service to copy once it is reachable."""
        folder = await self._writable(target, is_there=False)
        now = clock.time_ns()

        def txn(conn: Connection) -> Change:
            if tree.child_at(conn, folder.ino, target.name) is not None:
                raise errors.UserError(f"{target.name} already exists.")
            if node.is_folder and not tree.is_listed_below(conn, node.ino):
                raise errors.UserError(f"{source} was not copied: not all that is in it is known here.")
            made: dict[Ino, Ino] = {}
            for one in tree.subtree(conn, node.ino):
                original = tree.get(conn, one)
                if original.local or (one != node.ino and original.parent not in made):
                    continue
                into, name = made.get(original.parent or 0, folder.ino), original.name
                made[one] = _copied(conn, original, into, target.name if one == node.ino else name, now)
            tree.touch(conn, folder.ino, now)
            return Change(ChangeKind.ENTRY, made[node.ino], folder.ino, target.name, is_new=True)

        self.context.remote_updates.publish([await self.context.db.write(txn)])
        self.push.wake()

    async def _make(self, node: Node, item_id: str, folder_id: str, name: str) -> items.Item:
        client = self.context.client
        if node.is_folder:
            return await client.folders.copy(item_id, parent_id=folder_id, name=name)
        return await client.files.copy(item_id, parent_id=folder_id, name=name, version=node.version)

    async def _find(self, path: str) -> Node:
        return await path_lookup.find(self.context.db, self.context.hydrator, path)

    async def _target(self, node: Node, destination: str) -> _Target:
        """Return the folder and name that a destination means: a folder, or a new name in one."""
        db = self.context.db
        above, _, name = destination.rstrip("/").rpartition("/")
        folder = await self._find(above) if name else await self._find("/")
        if not folder.is_folder:
            raise errors.UserError(f"{above} is not a folder.")
        await self._listed(folder)
        held = tree.find_clash(db, folder.ino, name) if name else folder
        if held is not None and held.is_folder:
            folder, name = held, node.name
            await self._listed(folder)
            held = tree.find_clash(db, folder.ino, name)
        elif destination.endswith("/"):
            raise errors.UserError(f"There is no folder {destination.rstrip('/')} on the drive.")
        if held is not None:
            raise errors.UserError(f"{tree.path(db, held.ino)} already exists.")
        if folder.ino == node.ino or tree.path(db, folder.ino).startswith(f"{tree.path(db, node.ino)}/"):
            raise errors.UserError("A folder cannot be copied into itself.")
        try:
            naming.check(folder.ino, name)
        except OSError as error:
            raise errors.UserError(f"{name!r} is not a possible name: {error.strerror}.") from None
        return _Target(folder, name)

    async def _listed(self, folder: Node) -> None:
        if tree.is_listed(self.context.db, folder.ino):
            return
        try:
            await self.context.hydrator.listing(folder.ino)
        except OSError as error:
            raise errors.UserError(f"{folder.name} could not be listed: {error.strerror}.") from None

    async def _sent(self, node: Node, source: str) -> Node:
        """Return the node once it is uploaded with everything below it."""
        why: set[str] = set()

        async def is_sent() -> bool:
            nonlocal why
            why = await self.context.db.query(lambda conn: queue.unsent(conn, node.ino)) - {"local"}
            return not why or "held" in why

        with self.push.hurrying():
            await self.push.until(is_sent, seconds=SEND_SECONDS)
        now = tree.find(self.context.db, node.ino)
        if why or now is None or now.remote_id is None:
            raise errors.UserError(
                f"{source} was not copied: it has changes that are not uploaded; `cmsfs status` shows them."
            )
        return now

    async def _writable(self, target: _Target, *, is_there: bool = True) -> Node:
        """Return the target folder, once it is uploaded if it must be there (`is_there`)."""
        folder = target.folder
        try:
            rights = await self.account.rights.learn(folder)
            permissions.check(folder, rights, NodeRight.WRITE)
            if folder.local or (folder.remote_id is None and folder.ino == ROOT):
                raise OSError(errno.EBUSY, folder.name)
            if not is_there:
                return folder
            if folder.remote_id is None:
                await self.push.confirm(folder.ino, seconds=SEND_SECONDS)
        except OSError as error:
            why = _WHY_NOT.get(error.errno or 0, error.strerror)
            raise errors.UserError(f"Nothing can be copied to {folder.name}: {why}.") from None
        found = tree.find(self.context.db, folder.ino)
        if found is None or found.remote_id is None:
            raise errors.UserError(f"Nothing can be copied to {folder.name}: it is not uploaded yet.")
        return found


def _copied(conn: Connection, original: Node, folder: Ino, name: str, now: int) -> Ino:
    """Create the local copy of one item, with an operation to send it."""
    if original.is_folder:
        ino = tree.insert(conn, folder, name, NodeKind.FOLDER, now_ns=now, mode=original.mode)
        tree.mark_listed(conn, ino, at=now // 10**9)
        ops.record(conn, ino, ops.OpKind.MKDIR, due_ns=now)
        return ino
    if original.kind is not NodeKind.FILE:
        raise errors.UserError(f"{original.name} can only be copied when the service can be reached.")
    if original.draft is not None or original.sha1 is None:
        raise errors.UserError(f"{original.name} is being written, and nothing was copied; use `cp`.")
    ino = tree.insert(conn, folder, name, NodeKind.FILE, now_ns=now, mode=original.mode)
    node_rows.set_content(conn, ino, sha1=original.sha1, size=original.size)
    ops.record(conn, ino, ops.OpKind.UPLOAD, due_ns=now)
    if original.remote_id is not None and original.base_sha1 == original.sha1:
        found = CopySource(original.remote_id, original.version, original.sha1, True)
        copy_sources.note(conn, ino, found)
        # Keep the source of its contents, in case the original changes.
        past_versions.keep(conn, original.sha1, original.remote_id, original.version)
    return ino
