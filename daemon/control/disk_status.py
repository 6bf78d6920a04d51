"""The part of `cmsfs status` that reports a local disk with too little space."""

from cmsfs.cache.blocks import BlockCache
from cmsfs.disk_reserve import DiskReserve


def problems(reserve: DiskReserve, blocks: BlockCache) -> list[str]:
    """Return a sentence for each function that lacks disk space."""
    found = []
    if blocks.is_short:
        found.append("Free space on the cache's disk is below `keep_free_bytes`: downloads are not cached.")
    if not reserve.is_short:
        return found
    return [
        *found,
        f"The disk of {reserve.folder} is full: nothing can be written to the drive until space is freed. "
        "Deleting still works, and pending uploads continue.",
    ]
