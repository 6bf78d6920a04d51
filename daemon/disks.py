"""What `cmsfs status` says while a disk of this machine has too little room."""

from cmsfs.reserve import Reserve


def told(reserve: Reserve) -> list[str]:
    """A sentence for each thing that cannot be done for want of room; none while all is well."""
    if not reserve.is_short:
        return []
    return [
        f"The disk of {reserve.folder} is full: nothing new can be written on the drive until there is room."
        " Deleting works, and what waits is uploaded."
    ]
