"""Runs requests of virtual folders with a deadline, and maps their failures to errnos."""

import errno
import os
from collections.abc import Awaitable
from typing import TypeVar

import trio

from cmsfs import errors
from cmsfs.vfs import errno_map

# How long a program waits for what is asked of the service on its behalf.
DEADLINE_SECONDS = 30.0

T = TypeVar("T")


async def with_deadline(answer: Awaitable[T]) -> T:
    """The answer.  Raises `OSError` for what went wrong; what is absent now may be there in a moment, and
    as nobody would tell the kernel, it must not remember that."""
    try:
        with trio.fail_after(DEADLINE_SECONDS):
            return await answer
    except FileNotFoundError as error:
        raise errno_map.TransientEnoent(errno.ENOENT, os.strerror(errno.ENOENT), error.filename) from error
    except trio.TooSlowError as error:
        raise errno_map.oserror(errno.ETIMEDOUT) from error
    except errors.NotFound as error:
        raise errno_map.TransientEnoent(errno.ENOENT, os.strerror(errno.ENOENT), str(error)) from error
    except errors.CmsfsError as error:
        raise errno_map.to_oserror(error) from error
