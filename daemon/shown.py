"""What the kernel is given: the account's tree with the hidden folders and the views beside it.

Rule: what is shown is put together here; what it means stands with each in `cmsfs.vfs`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from cmsfs import config
from cmsfs.config import saved_searches
from cmsfs.replica import cursor
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database
from cmsfs.vfs import permissions
from cmsfs.vfs.composite import Composite, Hidden
from cmsfs.vfs.desktop_trash import DesktopTrash
from cmsfs.vfs.filesystem import Filesystem
from cmsfs.vfs.ports import Account
from cmsfs.vfs.search_folder import SearchFolder
from cmsfs.vfs.trash import Bin, Trash
from cmsfs.vfs.versions import VersionViews
from cmsfs.vfs.virtual import Views
from daemon.finding import Finding
from daemon.history import History
from daemon.push.kit import Kit
from daemon.thumbnails import Thumbnails


def shown(
    fs: Filesystem,
    kit: Kit,
    hub: Hub,
    *,
    bin_: Bin,
    account: Account,
    settings: config.Settings,
    thumbnails: Thumbnails | None = None,
) -> Composite:
    """The drive with all that it shows."""
    saved = saved_searches.Saved(settings.paths.searches, settings.account)
    finding = Finding(kit.db, kit.client, kit.hydrate, kit.health)
    hidden = [Hidden(".search", SearchFolder(finding, saved))]
    if settings.trash:
        trash = Trash(bin_, kit.blocks)
        hidden.append(Hidden(settings.trash, trash, listed=settings.list_trash))
        hidden.append(Hidden(f".Trash-{os.getuid()}", DesktopTrash(trash, _Shelf(kit.db))))

    async def check_read(node: Node) -> None:
        await account.learn_rights(node)
        permissions.check(node, account.rights(node), permissions.Right.READ, account.reason(node))

    views: Sequence[Views] = [VersionViews(kit.db, History(kit.client, kit.health), check_read)]
    opened = thumbnails.opened if thumbnails is not None else None
    return Composite(fs, kit.blocks, kit.hydrate, hub, hidden=hidden, views=views, opened=opened)


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What file managers threw away, in the replica's database."""

    db: Database

    def load(self) -> str:
        return cursor.get(self.db, cursor.DESKTOP_TRASH) or ""

    async def store(self, text: str) -> None:
        await self.db.write(lambda conn: cursor.put(conn, cursor.DESKTOP_TRASH, text))
