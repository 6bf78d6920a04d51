"""The service's trash for the drive: list, restore, purge, and delete into it synchronously.

Nothing here is journaled: a program that restores or purges needs the result.  Restores and deletions are
applied to the tree before the program gets its answer.

Rule: an item is deleted into the trash only if it is uploaded with everything below it; otherwise, or while
it is being deleted, the request is refused.
"""

import contextlib
import errno
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.content.trash import TRASH_FIELDS
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.journal import ops, queue
from cmsfs.models.content import search
from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import deletions as replica_deletions
from cmsfs.replica.nodes import ROOT, Ino, ItemKey, Node, NodeKind, Remote, remote_from_item
from cmsfs.replica.rows import in_flight, op_rows
from cmsfs.replica.sharing import shares
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map, permissions
from cmsfs.vfs.permissions import NodeRight
from cmsfs.vfs.ports import AccountPort, TrashPages
from cmsfs.vfs.tree import naming as vfs_naming
from cmsfs.vfs.virtual import trash
from daemon.account import leave
from daemon.content.arrivals import arrived, looked_at, removal_ended, seen_again
from daemon.core.health import Health
from daemon.push.context import PushContext
from daemon.push.dispatcher import Dispatcher

log = logging.getLogger(__name__)

# Time limit for pending deletions when a program lists the trash or restores an item.
SETTLE_SECONDS = 5.0
# Time limit for pending uploads when something is moved into the trash, or out of it into a new folder.
SEND_SECONDS = 10.0

# Number of retries for a file whose etag differs while its contents are unchanged.
ATTEMPTS = 3


class _Listed:
    """The trash, read by its own listing."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health
        self._marker: str | None = None
        self._ended = False

    async def next(self) -> Sequence[Remote]:
        while not self._ended:
            self._health.check()
            with self._health.request("trash"):
                page = await self._client.trash.page(self._marker)
            self._ended = not page.next_marker or page.next_marker == self._marker
            self._marker = page.next_marker
            if page.entries:
                return [remote_from_item(item) for item in page.entries]
        return []


class _Searched:
    """The trash, read by search if there is no listing: its first ten thousand items."""

    def __init__(self, client: Client, health: Health) -> None:
        self._client = client
        self._health = health
        self._offset = 0
        self._ended = False

    async def next(self) -> Sequence[Remote]:
        if self._ended:
            return []
        query = search.Query(
            query=EVERYTHING,
            trash_content="trashed_only",
            fields=list(TRASH_FIELDS),
            limit=search.MAX_LIMIT,
            offset=self._offset,
        )
        self._health.check()
        with self._health.request("trash"):
            page = await self._client.search.page(query)
        self._offset += page.limit or len(page.entries)
        self._ended = self._offset >= page.total_count or self._offset > search.MAX_OFFSET
        if self._ended and self._offset < page.total_count:
            log.warning("the trash has more items than a search can return; the oldest are not shown")
        return [remote_from_item(item) for item in page.entries]


@dataclass(slots=True)
class RemoteTrash:
    """Implements `TrashPort` of the vfs over one client."""

    context: PushContext
    push: Dispatcher
    account: AccountPort
    deletions: int = 0  # number of deletion requests at the last listing
    is_outdated: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the service has operations beyond its specification."""
        return self.context.profile.trash

    def pages(self) -> TrashPages:
        return (_Listed if self.is_whole else _Searched)(self.context.client, self.context.health)

    async def settle(self) -> bool:
        if queue.has_pending_removals(self.context.db) and self.context.health.may_work:

            def txn(conn: Connection) -> int:
                return op_rows.end_settling(conn, now_ns=clock.time_ns(), kind=ops.OpKind.TRASH)

            await self.context.db.write(txn)

            async def is_done() -> bool:
                return not queue.has_pending_removals(self.context.db)

            await self.push.until(is_done, seconds=SETTLE_SECONDS)
        before, self.deletions = self.deletions, self.context.health.requests["delete"]
        was_outdated, self.is_outdated = self.is_outdated, False
        return was_outdated or before != self.deletions

    def outdated(self) -> None:
        """Drop cached listings at the user's request, so that the next one is current."""
        self.is_outdated = True

    def original_path(self, item: Remote) -> str:
        name = naming.file_name(item.kind, item.name)
        folder = self._original_folder(item)
        if folder is not None and folder.parent is None and folder.ino != ROOT:
            return f"({folder.name})/{name}"  # the folder is in the trash itself, or gone
        if folder is not None:
            return f"{tree.path(self.context.db, folder.ino).rstrip('/')}/{name}"
        parent = item.item.parent
        return f"({parent.name or parent.id})/{name}" if parent is not None else name

    def _original_folder(self, item: Remote) -> Node | None:
        if item.parent_id is None:
            return None
        if item.parent_id == tree.root_id(self.context.db):
            return tree.find(self.context.db, ROOT)
        return tree.find_remote(self.context.db, NodeKind.FOLDER, item.parent_id)

    # ---- out of the trash ----------------------------------------------------------------------

    async def restore(self, item: Remote, parent: Ino, name: str) -> Ino:
        self.context.health.check()
        if item.kind is not NodeKind.LINK and not self.is_whole:
            log.warning(
                "this service's API restores web links only; restore files and folders on its web pages"
            )
            raise errno_map.oserror(errno.EOPNOTSUPP, name)
        folder = await self._folder(parent)
        wanted, shown = trash.drive_name(item, parent, name)
        if (holder := tree.find_clash(self.context.db, parent, shown)) is not None:
            raise vfs_naming.name_clash(shown, holder.name)
        if not await removal_ended(self.context, self.push, item, seconds=SETTLE_SECONDS):
            raise errno_map.oserror(errno.EBUSY, "its deletion here is not answered yet")
        if not self.is_whole:
            home = self._original_folder(item)
            if home is not None and home.ino != parent and _is_alive(home):
                raise self._only_home(home)
        assert folder.remote_id is not None, "it is uploaded"
        # On its way it may pass its old folder, by any of these names, which something else may have here.
        names = {item.name, wanted, _aside(item, wanted)}
        self.context.passing.add(item.id)
        try:
            with contextlib.ExitStack() as stack:
                for place in product({item.parent_id or "", folder.remote_id}, names):
                    stack.enter_context(self.context.remote_updates.making(*place))
                return await self._restore_to(item, folder, wanted)
        finally:
            self.context.passing.discard(item.id)

    async def _restore_to(self, item: Remote, folder: Node, wanted: str) -> Ino:
        try:
            answer = await self._back(item, folder, wanted)
        except (errors.Conflict, errors.Forbidden, errors.NotFound):
            raise
        except BaseException:
            # It may have been restored without an answer: then it is to be seen before its name is used.
            with trio.CancelScope(shield=True):
                if (now := await looked_at(self.context, item)) is not None and now is not item:
                    await arrived(self.context, now)
            raise
        if answer.parent_id == folder.remote_id:
            return await self._arrived(answer, folder)
        if not self.is_whole:
            await self._arrived(answer, None)
            raise self._only_home(tree.find_remote(self.context.db, NodeKind.FOLDER, answer.parent_id or ""))
        try:
            moved = await self._move(answer, folder, wanted)
        except BaseException:
            # Wherever it is now, there it is to be seen: it may have been moved without an answer.
            with trio.CancelScope(shield=True):
                now = await seen_again(self.context, answer)
            if now is answer:
                log.warning("it was restored to its original folder; whether it was moved is not known yet")
            elif now is not None and now.parent_id != folder.remote_id:
                log.warning("it was restored to its original folder, and could not be moved from there")
            raise
        return await self._arrived(moved, folder)

    async def _folder(self, ino: Ino) -> Node:
        """Return the folder to restore to, which must be uploaded."""
        folder = tree.find(self.context.db, ino)
        if folder is None:
            raise errno_map.oserror(errno.ENOENT)
        if folder.local:
            log.warning("this folder is local only: restore to another folder and copy from there")
            raise errno_map.oserror(errno.EPERM, folder.name)
        if (rights := await self.account.rights.learn(folder)) is not permissions.ALL:
            permissions.check(folder, rights, NodeRight.WRITE)
        if not tree.is_listed(self.context.db, ino):
            await self.context.hydrator.listing(ino)
        if folder.remote_id is None:
            await self.push.confirm(ino, seconds=SEND_SECONDS)
            folder = tree.find(self.context.db, ino)
        if folder is None or folder.remote_id is None:
            raise errno_map.oserror(errno.EBUSY, "the folder is not uploaded yet")
        return folder

    async def _back(self, item: Remote, folder: Node, wanted: str) -> Remote:
        """Restore an item at the service, with its old or the wanted name and folder."""
        new_name = wanted if wanted != item.name else None
        home, is_home = self._original_folder(item), not self.is_whole or item.parent_id == folder.remote_id
        shown = naming.file_name(item.kind, wanted)
        if is_home or home is None or tree.find_clash(self.context.db, home.ino, shown) is None:
            try:
                return await self._restore(item, folder, new_name)
            except errors.Conflict:
                if queue.unfinished(self.context.db):
                    # The item with that name may have a pending rename.
                    with self.push.hurrying(), trio.move_on_after(SEND_SECONDS):
                        await self.push.drained()
                elif is_home:
                    raise
            if is_home:
                return await self._restore(item, folder, new_name)
        # The name is in use in the original folder, which is not the target, or will be by a pending change.
        return await self._restore(item, folder, _aside(item, wanted))

    async def _restore(self, item: Remote, folder: Node, name: str | None) -> Remote:
        with self.context.health.request("restore"):
            found = await self.context.client.items.restore(
                item.kind, item.id, name=name, parent_id=folder.remote_id
            )
        return remote_from_item(found)

    async def _move(self, item: Remote, folder: Node, wanted: str) -> Remote:
        name = wanted if wanted != item.name else None
        with self.context.health.request("move"):
            answer = await self.context.client.items.update(
                item.kind, item.id, name=name, parent_id=folder.remote_id
            )
        return remote_from_item(answer)

    async def _arrived(self, item: Remote, folder: Node | None) -> Ino:
        """Apply a restored item; return its node."""
        node = await arrived(self.context, item, chosen=folder.ino if folder is not None else None)
        if node is None:
            raise errno_map.oserror(errno.EIO, "what was restored is not in the tree")
        if folder is not None and node.parent != folder.ino:
            raise errno_map.oserror(errno.EBUSY, "the restored item was moved at the same time")
        return node.ino

    def _only_home(self, home: Node | None) -> OSError:
        path = tree.path(self.context.db, home.ino) if home is not None else "the folder that it was in"
        log.warning("this service restores a web link to %s only; move it there, and then on", path)
        return errno_map.oserror(errno.EPERM, path)

    async def purge(self, item: Remote) -> None:
        self.context.health.check()
        if (root := tree.find(self.context.db, ROOT)) is not None:
            permissions.check(root, self.account.rights.on(root), NodeRight.DELETE)
        if not self.is_whole:
            log.warning(
                "this service's API cannot delete permanently; use its web pages, or wait for it to expire"
            )
            raise errno_map.oserror(errno.EOPNOTSUPP, item.name)
        with self.context.health.request("purge"):
            await self.context.client.items.purge(item.kind, item.id)

    # ---- into the trash ------------------------------------------------------------------------

    async def put(self, parent: Ino, name: str) -> ItemKey | None:
        node = tree.find_child(self.context.db, parent, name)
        if node is None:
            raise errno_map.oserror(errno.ENOENT, name)
        found = node
        is_left = await self.context.db.query(lambda conn: leave.leaves_share(conn, found))
        rights = await self.account.rights.learn(node)
        permissions.check(node, rights, NodeRight.LEAVE if is_left else NodeRight.DELETE)
        if node.local:
            log.warning("this is local only and cannot go to the trash; delete it with `rm`")
            raise errno_map.oserror(errno.EPERM, name)
        missing = Ability.SHARES if is_left else Ability.DELETIONS
        if missing in self.context.client.offers.lacking:
            log.warning("%s stays: this service cannot %s", name, missing.cannot)
            raise errno_map.oserror(errno.EPERM, name)
        self.context.health.check()
        guard = self.context.guard
        if guard.is_holding:
            log.warning("%s stays: %s", name, guard.question)
            raise errno_map.oserror(errno.EBUSY, name)
        node = await self._sent(node)
        assert node.remote_id is not None
        began = clock.monotonic()
        await (self._leave(node) if is_left else self._delete(node))
        # Changes made at this moment stay, in a folder that is created anew.
        ino, sequence = node.ino, 0 if is_left else node.sequence + 1

        def txn(conn: Connection) -> tuple[list[Ino], list[Change]]:
            in_flight.resolve(conn, ino, node.remote_id)
            below = tree.subtree(conn, ino, kind=NodeKind.FILE) if node.is_folder else []
            return below, replica_deletions.remove_gone(conn, ino, sequence=sequence)

        with trio.CancelScope(shield=True):
            below, changes = await self.context.db.write(txn)
            self.context.remote_updates.publish(changes)
        if guard.changes.is_on and not is_left:
            guard.changes.removed(node, below, at=began)
        return None if is_left else (node.kind, node.remote_id)

    async def _leave(self, node: Node) -> None:
        me = (await self.context.db.query(shares.rules)).me or ""
        try:
            await leave.leave(self.context.client, self.context.health, node, me)
        except errors.NotFound:
            pass  # no longer shared with us
        log.info("%s is no longer shown; its owner still has it, unchanged", node.name)

    async def _sent(self, node: Node) -> Node:
        """Return the node once it is uploaded with everything below it.  Raises `OSError` (EBUSY)."""
        why: set[str] = set()

        async def is_sent() -> bool:
            nonlocal why
            why = await self.context.db.query(lambda conn: queue.unsent(conn, node.ino))
            return not why or bool(why & {"local", "held"})

        with self.push.hurrying():
            await self.push.until(is_sent, seconds=SEND_SECONDS)
        if "local" in why:
            log.warning("it contains local-only files; delete them first, or use `rm -r`")
        elif why:
            log.warning("it has pending uploads; try again when `cmsfs status` shows none")
        now = tree.find(self.context.db, node.ino)
        if why or now is None or now.remote_id is None or now.parent != node.parent:
            raise errno_map.oserror(errno.EBUSY, ", ".join(sorted(why)))
        return now

    async def _delete(self, node: Node) -> None:
        """Delete the item; a file only with the contents known here.  Raises `CmsfsError`."""
        assert node.remote_id is not None
        await self.context.before_deletion(None if node.kind is NodeKind.FOLDER else node.remote_id)
        etag = None if node.is_folder else node.etag
        if node.kind is not NodeKind.FILE:
            with self.context.health.request("delete"):
                await self.context.client.items.delete(node.kind, node.remote_id, recursive=True, etag=etag)
            return
        for attempt in range(ATTEMPTS):
            try:
                with self.context.health.request("delete"):
                    await self.context.client.items.delete("file", node.remote_id, etag=etag)
                return
            except errors.PreconditionFailed:
                theirs = await self.context.client.items.get("file", node.remote_id)
                if theirs.sha1 != node.base_sha1 or attempt == ATTEMPTS - 1:
                    log.warning("it was just changed at the service; check it again first")
                    raise
                etag = theirs.etag


def _is_alive(folder: Node) -> bool:
    return folder.parent is not None or folder.ino == ROOT


def _aside(item: Remote, wanted: str) -> str:
    """Return the name under which the item is restored if the wanted one is taken in its old folder."""
    return naming.distinct(wanted, f"restored {item.id}")
