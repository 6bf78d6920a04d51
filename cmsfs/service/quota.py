"""The space that a user may fill with what is stored in the own tree."""

from cmsfs.service import problems, store


def check_space(read: store.Read, user: int, size: int) -> None:
    """403 unless so many bytes more may be stored."""
    row = read("SELECT space_amount, space_used FROM user WHERE id = ?", user)[0]
    if 0 <= row["space_amount"] < row["space_used"] + size:
        said = "There is not enough space left in this account."
        raise problems.Refused(403, "storage_limit_exceeded", said)
