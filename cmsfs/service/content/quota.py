"""Quotas: the largest file that a user may upload, and the storage space of a user's tree."""

from cmsfs.service import problems
from cmsfs.service.storage import store


def check_space(read: store.Read, user: int, size: int) -> None:
    """Raise 403 unless the user has this much space left."""
    row = read("SELECT space_amount, space_used FROM account WHERE id = ?", user)[0]
    if 0 <= row["space_amount"] < row["space_used"] + size:
        message = "There is not enough space left in this account."
        raise problems.Refused(403, "storage_limit_exceeded", message)


def check_upload(read: store.Read, owner: int, size: int) -> None:
    """Raise 403 unless a file of this size fits the limits of the folder's owner."""
    user = read("SELECT max_upload_size FROM account WHERE id = ?", owner)[0]
    if size > user["max_upload_size"]:
        message = "The file is larger than this account may upload."
        raise problems.Refused(403, "file_size_limit_exceeded", message)
    check_space(read, owner, size)
