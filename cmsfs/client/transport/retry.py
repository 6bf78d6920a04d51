"""The retry policy: which requests are retried, when, and how often.

Repeating is for the small mishaps that a person need not hear of: a connection that broke under a
read, a busy service.  It is bounded by attempts, by the longest wait, and by the caller's deadline;
what lasts longer is for the journal and for health to handle.

Rule: a change is repeated only when it has certainly not happened.  After a broken connection or a 5xx
it may have, and only who knows what it was about can look.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import trio

from cmsfs import errors
from cmsfs.client.transport.lazy import httpx
from cmsfs.runtime import chance


class Repeat(enum.Enum):
    """Whether a request may be repeated safely."""

    READ = "read"  # asking twice does no harm
    CHANGE = "change"  # doing it twice may


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long to retry."""

    attempts: int = 4
    # Nothing listens there, or there is no network: that lasts, and whoever waits wants to know soon.
    connect_attempts: int = 2
    first_wait: float = 0.5  # the upper end of the first wait; it doubles with each further one
    longest_wait: float = 20.0  # a service that asks for more is not waited for here


# 409 answers that say "not now": two uploads race for a name, another move holds the tree.
BUSY = frozenset({"name_temporarily_reserved", "operation_blocked_temporary"})

# The answer says that the service, or something before it, is not well: nothing is wrong with the request.
PASSING = frozenset({500, 502, 503, 504})


async def pause(error: errors.RemoteError, *, failed: int, repeat: Repeat, policy: Policy) -> None:
    """After so many failed attempts of one call, the last with `error`: return when it is time for another;
    raise `error` if there is to be none."""
    if failed >= _allowed(error, repeat, policy):
        raise error
    # Full jitter: callers that failed together do not come back together.
    wait = chance.uniform(0, policy.first_wait * 2 ** (failed - 1))
    wait += getattr(error, "retry_after", None) or 0.0
    if wait > policy.longest_wait or trio.current_time() + wait >= trio.current_effective_deadline():
        raise error
    await trio.sleep(wait)


def _allowed(error: errors.RemoteError, repeat: Repeat, policy: Policy) -> int:
    """How many attempts there are."""
    if not may_repeat(error, repeat) or isinstance(error.__cause__, httpx.ConnectTimeout):
        # A connection was tried for ten seconds already, by the kernel's own repeats.
        return 0
    return policy.connect_attempts if never_connected(error) else policy.attempts


def may_repeat(error: errors.RemoteError, repeat: Repeat) -> bool:
    """Whether the same request may be sent again."""
    if never_connected(error) or isinstance(error, errors.RateLimited):
        return True
    if isinstance(error, errors.Conflict):
        return error.code in BUSY
    if repeat is Repeat.CHANGE:
        return False
    if isinstance(error, errors.ServerError):
        return error.status in PASSING or error.retry_after is not None
    # Not after a timeout: it has used up the caller's patience already.
    return isinstance(error, errors.Offline)


def never_connected(error: errors.RemoteError) -> bool:
    """Whether the request cannot have reached the service."""
    return isinstance(error, errors.Offline) and isinstance(
        error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError
    )
