"""Checks that the folder at the root of a restricted drive still exists at the service.

In the trash, or not shared any more, it takes everything below it along, for the time that it is away.  So
the drive keeps what it shows and what waits to be sent, and lets nothing be changed until the folder is back,
by its id.

Rule: where the drive begins at a folder, nothing counts as gone before this has been asked.
"""

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.sqlite import Database
from daemon.core import item_search
from daemon.core.health import Health


async def check(db: Database, client: Client, health: Health) -> None:
    """Ask for the folder, where the drive begins at one: another root cannot go.

    Raises `RootGone`, which `health` tells from then on, until this finds the folder again; and what a
    request raises.
    """
    root = tree.root_id(db)
    if root == wire_names.ROOT_ID:
        return
    with health.request("lookup"):
        try:
            await item_search.check_folder(client, root)
        except (errors.NotFound, errors.Forbidden, errors.Gone) as error:
            raise errors.RootGone(health.root_gone) from error
    health.begins(None)
