"""Removes thumbnails of files that may no longer be read from the desktop's cache.

File managers keep a thumbnail of each photo that they have shown, by the URI of the file.  Of those below the
mountpoint, only thumbnails of the current versions of readable files are kept; others are created again on
demand.
"""

import logging
from pathlib import Path

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Node
from cmsfs.runtime import threads
from cmsfs.sqlite import Database
from cmsfs.vfs.permissions import NodeRight
from daemon.account.permissions import RightsReader
from daemon.desktop import thumbnail_cache

log = logging.getLogger(__name__)


async def wipe(db: Database, rights: RightsReader, mountpoint: Path) -> int:
    """Remove them; return how many.  Failures are logged."""
    cache = config.thumbnails_folder()
    kept = await threads.run_sync(lambda: list(thumbnail_cache.thumbnails_below(cache, mountpoint)))
    unwanted = [one.file for one in kept if not _is_shown(db, rights, one)]
    await threads.run_sync(_remove, unwanted)
    if unwanted:
        log.info("removed %d thumbnails of items that may no longer be read", len(unwanted))
    return len(unwanted)


def _is_shown(db: Database, rights: RightsReader, one: thumbnail_cache.CachedThumbnail) -> bool:
    node: Node | None = tree.find(db, ROOT)
    for name in one.path.split("/"):
        node = tree.find_child(db, node.ino, name) if node is not None else None
    return (
        node is not None
        and node.name == one.path.rpartition("/")[2]
        and node.mtime_ns // 10**9 == one.mtime
        and NodeRight.READ in rights.of(node)
    )


def _remove(files: list[Path]) -> None:
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("a thumbnail of an item that may no longer be read could not be removed: %s", error)
