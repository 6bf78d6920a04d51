"""What `cmsfs status` says while a disk of this machine has too little room."""

from cmsfs.cache.blocks import Blocks
from cmsfs.reserve import Reserve


def told(reserve: Reserve, blocks: Blocks) -> list[str]:
    """A sentence for each thing that cannot be done for want of room; none while all is well."""
    found = []
    if blocks.is_short:
        found.append(
            "Less is free on the disk of the cache than `keep_free_bytes`: files that are not here are read"
            " without being kept."
        )
    if not reserve.is_short:
        return found
    return [
        *found,
        f"The disk of {reserve.folder} is full: nothing new can be written on the drive until there is room."
        " Deleting works, and what waits is uploaded.",
    ]
