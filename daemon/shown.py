"""What the kernel is given: the account's tree with the hidden folders and the views beside it.

Rule: what is shown is put together here; what it means stands with each in `cmsfs.vfs`.
"""

from collections.abc import Sequence

from cmsfs import config
from cmsfs.cache.blocks import Blocks
from cmsfs.replica.changes import Hub
from cmsfs.vfs.composite import Composite, Hidden
from cmsfs.vfs.filesystem import Filesystem
from cmsfs.vfs.trash import Bin, Trash
from cmsfs.vfs.virtual import Views
from daemon.hydrate import Hydrate


def shown(
    fs: Filesystem, blocks: Blocks, hydrate: Hydrate, hub: Hub, *, settings: config.Settings, bin_: Bin
) -> Composite:
    """The drive with all that it shows."""
    hidden: list[Hidden] = []
    if settings.trash:
        hidden.append(Hidden(settings.trash, Trash(bin_, blocks), listed=settings.trash_listed))
    views: Sequence[Views] = ()
    return Composite(fs, blocks, hydrate, hub, hidden=hidden, views=views)
