"""Checks that the folder at the root of a restricted drive still exists at the service.

A folder that is in the trash or not shared any more takes everything below it along for that time.  So the
drive keeps its tree and its pending changes, and allows no changes until the folder is back, with the same
ID.

Rule: on a drive with such a root, nothing counts as gone before this check.
"""

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.sqlite import Database
from daemon.core import item_search
from daemon.core.health import Health


def can_vanish(db: Database) -> bool:
    """Whether the drive's root is a folder that can go; that of an account cannot."""
    return tree.root_id(db) != wire_names.ROOT_ID


async def check(db: Database, client: Client, health: Health) -> None:
    """Request the root folder of a restricted drive; any other root cannot disappear.

    Raises `RootGone`, which `health` reports from then on until this finds the folder again; and what a
    request raises.
    """
    if not can_vanish(db):
        return
    with health.request("lookup"):
        try:
            await item_search.check_folder(client, tree.root_id(db))
        except (errors.NotFound, errors.Forbidden, errors.Gone) as error:
            raise errors.RootGone(health.root_gone) from error
    health.begins(None)
