"""The boundary to the kernel: turns every exception of a handler into an errno.

`@handler` and `@quiet` wrap every method of `operations.Operations`.  An exception other than `FUSEError`
ends `pyfuse3.main()` and leaves every caller waiting in the kernel, so nothing else may pass.

Rule: errors become numbers here and nowhere else; `trio.Cancelled` is not an error and passes.
"""

import errno
import functools
import inspect
import itertools
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, ParamSpec, TypeVar

import pyfuse3

from cmsfs import logs
from cmsfs.fuse import request_turns

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

# First parameters that identify the object of a request in log lines.
_SUBJECTS = frozenset({"ino", "parent", "fh"})

# Requests that may be abandoned midway and repeated: they change nothing, or repeat the same change.
_REPEATABLE = frozenset(
    {
        *("lookup", "getattr", "readlink", "opendir", "readdir", "fsyncdir", "read", "write", "fsync"),
        *("statfs", "_getxattr", "listxattr"),
    }
)


class NonRepeatable:
    """Number of requests in progress that must not be carried out twice."""

    in_flight = 0


class InFlightRequests:
    """Requests whose callers are waiting, each with a unique number."""

    ids: ClassVar[set[int]] = set()
    next_id = itertools.count()


def handler(fn: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Bind the log context; answer `OSError` with its errno, and anything else with EIO and a traceback."""
    context = _context(fn)
    changing = int(fn.__name__ not in _REPEATABLE)

    @functools.wraps(fn)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        number = next(InFlightRequests.next_id)
        InFlightRequests.ids.add(number)
        NonRepeatable.in_flight += changing
        bound = logs.bind(context(args))
        try:
            return await request_turns.run_handler(fn(*args, **kwargs))
        except pyfuse3.FUSEError:
            raise
        except Exception as error:
            raise pyfuse3.FUSEError(_to_errno(error)) from None
        finally:
            logs.unbind(bound)
            NonRepeatable.in_flight -= changing
            InFlightRequests.ids.discard(number)

    return wrapped


def no_reply_handler(fn: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    """Like `handler`, for requests without a reply (forget, release, releasedir): nothing is raised."""
    context = _context(fn)

    @functools.wraps(fn)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        bound = logs.bind(context(args))
        try:
            await request_turns.run_handler(fn(*args, **kwargs))
        except Exception:
            log.exception("a request without a reply failed")
        finally:
            logs.unbind(bound)

    return wrapped


def _context(fn: Callable[..., Any]) -> Callable[[tuple[object, ...]], logs.Fields]:
    op = ("op", fn.__name__)
    subject = list(inspect.signature(fn).parameters)[1]
    if subject not in _SUBJECTS:
        fields: logs.Fields = (op,)
        return lambda args: fields
    return lambda args: (op, (subject, args[1]))


def _to_errno(error: Exception) -> int:
    """Return the errno to answer with.  An `OSError` without a valid errno (`socket.gaierror` has -2, which
    the kernel would turn into ERANGE) is a bug of ours, like any other exception."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in errno.errorcode:
        log.debug("answered %s", errno.errorcode[number])
        return number
    log.error("unexpected error in a handler; the caller gets EIO", exc_info=error)
    return errno.EIO
