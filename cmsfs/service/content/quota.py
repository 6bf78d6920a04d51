"""Quotas: the largest file a user may upload, and the space of their tree."""

from cmsfs.service import problems
from cmsfs.service.storage import store


def check_space(read: store.Read, user: int, size: int) -> None:
    """403 unless so many bytes more may be stored."""
    row = read("SELECT space_amount, space_used FROM account WHERE id = ?", user)[0]
    if 0 <= row["space_amount"] < row["space_used"] + size:
        said = "There is not enough space left in this account."
        raise problems.Refused(403, "storage_limit_exceeded", said)


def check_upload(read: store.Read, owner: int, size: int) -> None:
    """403 unless a file of this size may be uploaded to what a user owns: the owner's limits count."""
    user = read("SELECT max_upload_size FROM account WHERE id = ?", owner)[0]
    if size > user["max_upload_size"]:
        said = "The file is larger than this account may upload."
        raise problems.Refused(403, "file_size_limit_exceeded", said)
    check_space(read, owner, size)
