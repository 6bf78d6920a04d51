"""Assembles what is mounted: the account's tree with the virtual folders.

Rule: what is shown is put together here; what it means stands with each in `cmsfs.vfs`.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass

from cmsfs import config
from cmsfs.client.history import moments
from cmsfs.config import saved_searches
from cmsfs.replica import kv_store
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database
from cmsfs.vfs import permissions
from cmsfs.vfs.heuristics import lockfiles
from cmsfs.vfs.ports import AccountPort, TrashPort
from cmsfs.vfs.tree.filesystem import Filesystem
from cmsfs.vfs.virtual import linked_folders
from cmsfs.vfs.virtual.desktop_trash import DesktopTrash
from cmsfs.vfs.virtual.lock_owners import LockHolder, LockOwners
from cmsfs.vfs.virtual.metadata_folders import MetadataFolder
from cmsfs.vfs.virtual.node import Views
from cmsfs.vfs.virtual.past_folders import PastViews
from cmsfs.vfs.virtual.router import HiddenFolder, Router
from cmsfs.vfs.virtual.search_folder import SearchFolder
from cmsfs.vfs.virtual.search_results import FinderPort
from cmsfs.vfs.virtual.trash import TrashFolder
from cmsfs.vfs.virtual.versions import VersionViews
from cmsfs.vfs.virtual.volume_info import VolumeInfo
from daemon.content.linked_folders import LinkedFolders
from daemon.content.metadata_browser import MetadataBrowser
from daemon.content.past_folders import PastFolders
from daemon.content.versions import VersionHistory
from daemon.core.supervisor import Starts
from daemon.desktop import drive_title
from daemon.push.context import PushContext


def build(
    fs: Filesystem,
    context: PushContext,
    hub: Hub,
    *,
    finder: FinderPort,
    remote_trash: TrashPort,
    account: AccountPort,
    settings: config.Settings,
    lock_holder: Callable[[Ino], LockHolder | None],
    nursery: Starts,
    user: Callable[[], str | None],
) -> Router:
    """The drive with all that it shows."""
    saved = saved_searches.SavedSearches(settings.paths.searches, settings.account)
    hidden = [HiddenFolder(".search", SearchFolder(finder, saved))]
    browsing = MetadataBrowser(
        context.db, context.client, context.hydrator, context.health, fs.getxattr, fs.setxattr
    )
    hidden.append(HiddenFolder(".by", MetadataFolder(browsing)))
    if not settings.is_narrowed:
        # A token that is for less than the account opens no link.
        linked = LinkedFolders(settings, context.db, context.client, context.health)
        hidden.append(HiddenFolder(linked_folders.NAME, linked_folders.LinksFolder(linked)))
    if settings.trash:
        trash = TrashFolder(remote_trash, context.blocks)
        hidden.append(HiddenFolder(settings.trash, trash, listed=settings.list_trash))
        hidden.append(HiddenFolder(f".Trash-{os.getuid()}", DesktopTrash(trash, _Shelf(context.db))))

    async def check_read(node: Node) -> None:
        rights = await account.rights.learn(node)
        permissions.check(node, rights, permissions.NodeRight.READ, account.rights.reason)

    def title() -> str:
        return drive_title.title(settings, kv_store.get(context.db, kv_store.LOGIN))

    profile = config.profile(settings)
    views: list[Views] = [
        VersionViews(context.db, VersionHistory(context.client, context.health), check_read),
        LockOwners(lockfiles.is_lock_file, functools.partial(lockfiles.document, context.db), lock_holder),
        VolumeInfo(title, drive_title.icon()),
    ]
    if profile.feed == "events" and profile.trash and not settings.is_narrowed:
        db, client, blocks = context.db, context.client, context.blocks
        past = PastFolders(db, client, context.health, blocks, nursery, user=user, check=check_read)
        views.append(PastViews(past, moments.parse))
    return Router(fs, context.blocks, context.hydrator, hub, hidden=hidden, views=views)


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What file managers threw away, in the replica's database."""

    db: Database

    def load(self) -> str:
        return kv_store.get(self.db, kv_store.DESKTOP_TRASH) or ""

    async def store(self, text: str) -> None:
        await self.db.write(lambda conn: kv_store.put(conn, kv_store.DESKTOP_TRASH, text))
