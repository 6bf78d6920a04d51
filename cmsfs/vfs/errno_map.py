"""Maps errors of the service and of the disk to errnos.

The one place where `cmsfs.errors` become `OSError`.  What is refused before it is sent has its errno
elsewhere: rights and locks in `vfs.permissions`, items under a legal hold in `daemon.content.delete_guard`.
"""

import errno
import os

from cmsfs import errors

_ERRNO: list[tuple[type[errors.CmsfsError], int]] = [
    (errors.Offline, errno.ENETDOWN),
    # Not ENOENT or ESTALE: everything is back with the folder.
    (errors.RootGone, errno.ENETDOWN),
    (errors.RemoteTimeout, errno.ETIMEDOUT),
    # Not EAGAIN: programs take that for a file that does not block, and some for an empty one.
    (errors.RateLimited, errno.ETIMEDOUT),
    (errors.Unauthorized, errno.EACCES),
    (errors.Forbidden, errno.EACCES),
    (errors.OAuthError, errno.EACCES),
    (errors.NotFound, errno.ENOENT),
    (errors.NotSupported, errno.EOPNOTSUPP),
    (errors.Conflict, errno.EEXIST),
    (errors.PreconditionFailed, errno.ESTALE),
    # IntegrityError, MissingBlocks, ProtocolError, ServerError and what else may come
    (errors.CmsfsError, errno.EIO),
]


class TransientEnoent(FileNotFoundError):
    """ENOENT that the kernel must not cache."""


def to_oserror(error: errors.CmsfsError) -> OSError:
    """The `OSError` (of the fitting subclass) that a program should see for this."""
    number = next(number for kind, number in _ERRNO if isinstance(error, kind))
    return oserror(number, str(error))


def oserror(number: int, detail: str = "") -> OSError:
    """An `OSError` of the subclass that belongs to an errno; `detail` (a name, a reason) is for logs."""
    return OSError(number, os.strerror(number), detail or None)
