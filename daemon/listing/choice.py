"""Chooses the lister that the service's profile supports."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from cmsfs import config
from cmsfs.client.session import Client
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.listing.deletion_check import DeletionCheck
from daemon.listing.folder_lister import FolderItems
from daemon.listing.foreground import Foreground
from daemon.listing.full_enumeration import FullEnumeration
from daemon.listing.search_lister import Lister, SearchLister
from daemon.listing.walk_detector import WalkDetector


class Listers(NamedTuple):
    """The functions that list one folder (`one`), the whole tree (`whole`), and everything below a folder
    (`deepen`)."""

    one: Lister
    whole: FullEnumeration | None
    deepen: Callable[[Ino], Awaitable[None]] | None


def choose_listers(
    profile: config.Profile,
    *,
    db: Database,
    client: Client,
    remote_updates: RemoteUpdates,
    health: Health,
    deletion_check: DeletionCheck,
    opened: Callable[[Ino], None],
) -> Listers:
    """Return the listers for a service of this profile; `opened` is called with folders that a program
    lists."""
    items = FolderItems(db, client, remote_updates, health, deletion_check)
    if profile.lister == "folder_items":
        return Listers(one=items, whole=None, deepen=None)
    walks = WalkDetector(db)
    foreground = Foreground()
    whole = FullEnumeration(
        db,
        client,
        remote_updates,
        health,
        deletion_check,
        walks,
        foreground,
        can_list_root=profile.folder_items,
    )
    lister = SearchLister(
        db,
        client,
        remote_updates,
        health,
        deletion_check,
        whole,
        walks,
        foreground,
        items if profile.folder_items else None,
        opened=opened,
    )
    return Listers(one=lister, whole=whole, deepen=lister.deepen)
