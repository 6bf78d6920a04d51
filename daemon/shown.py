"""What the kernel is given: the account's tree with the hidden folders and the views beside it.

Rule: what is shown is put together here; what it means stands with each in `cmsfs.vfs`.
"""

from collections.abc import Sequence

from cmsfs.cache.blocks import Blocks
from cmsfs.client.session import Client
from cmsfs.replica.changes import Hub
from cmsfs.sqlite import Database
from cmsfs.vfs.composite import Composite, Hidden
from cmsfs.vfs.filesystem import Filesystem
from cmsfs.vfs.versions import VersionViews
from cmsfs.vfs.virtual import Views
from daemon.health import Health
from daemon.history import History
from daemon.hydrate import Hydrate


def shown(
    fs: Filesystem, db: Database, client: Client, blocks: Blocks, hydrate: Hydrate, health: Health, hub: Hub
) -> Composite:
    """The drive with all that it shows."""
    hidden: Sequence[Hidden] = ()
    views: Sequence[Views] = [VersionViews(db, History(client, health))]
    return Composite(fs, blocks, hydrate, hub, hidden=hidden, views=views)
