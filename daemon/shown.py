"""What the kernel is given: the account's tree with the hidden folders and the views beside it.

Rule: what is shown is put together here; what it means stands with each in `cmsfs.vfs`.
"""

from collections.abc import Sequence

from cmsfs import searches
from cmsfs.cache.blocks import Blocks
from cmsfs.replica.changes import Hub
from cmsfs.vfs import search_folder, search_results
from cmsfs.vfs.composite import Composite, Hidden
from cmsfs.vfs.filesystem import Filesystem
from cmsfs.vfs.virtual import Views
from daemon.hydrate import Hydrate


def shown(
    fs: Filesystem,
    blocks: Blocks,
    hydrate: Hydrate,
    hub: Hub,
    *,
    finder: search_results.Finder,
    saved: searches.Saved,
) -> Composite:
    """The drive with all that it shows."""
    hidden: Sequence[Hidden] = (Hidden(search_folder.NAME, search_folder.SearchFolder(finder, saved)),)
    views: Sequence[Views] = ()
    return Composite(fs, blocks, hydrate, hub, hidden=hidden, views=views)
