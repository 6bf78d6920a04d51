"""The retry policy: which requests are retried, when, and how often.

Retries cover brief failures that the user need not notice: a connection that broke during a read, a busy
service.  They are limited by the number of attempts, the longest wait, and the caller's deadline; longer
outages are handled by the journal and the health state.

Rule: a change is retried only if it certainly did not take effect.  After a broken connection or a 5xx it may
have, and only the caller can check.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import trio

from cmsfs import errors
from cmsfs.client.transport.lazy import httpx
from cmsfs.models import problems
from cmsfs.runtime import chance


class Repeat(enum.Enum):
    """Whether a request may be repeated safely."""

    READ = "read"  # idempotent
    CHANGE = "change"  # repeating it may do harm


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long to retry."""

    attempts: int = 4
    # Connection refused, or no network: that is unlikely to pass soon, so fail early.
    connect_attempts: int = 2
    first_wait: float = 0.5  # the upper bound of the first wait; doubles with each retry
    longest_wait: float = 20.0  # if the service asks for a longer wait, there is no retry


# 409 codes that mean "not now": two uploads race for a name, or another move locks the tree.
BUSY = frozenset({"name_temporarily_reserved", "operation_blocked_temporary"})

# Transient failures of the service or a gateway, not of the request.
PASSING = frozenset({500, 502, 503, 504})


async def pause(error: errors.RemoteError, *, failed: int, repeat: Repeat, policy: Policy) -> None:
    """Wait before the next attempt, after `failed` attempts; raise `error`, the last failure, if there is
    none."""
    if failed >= _allowed(error, repeat, policy):
        raise error
    # Full jitter: callers that failed together do not retry together.
    wait = chance.uniform(0, policy.first_wait * 2 ** (failed - 1))
    wait += getattr(error, "retry_after", None) or 0.0
    if wait > policy.longest_wait or trio.current_time() + wait >= trio.current_effective_deadline():
        raise error
    await trio.sleep(wait)


def _allowed(error: errors.RemoteError, repeat: Repeat, policy: Policy) -> int:
    """Return the number of attempts for this error."""
    if not may_repeat(error, repeat) or isinstance(error.__cause__, httpx.ConnectTimeout):
        # The kernel has already retried the connection for ten seconds.
        return 0
    return policy.connect_attempts if never_connected(error) else policy.attempts


def may_repeat(error: errors.RemoteError, repeat: Repeat) -> bool:
    """Whether the request may be sent again after this error."""
    if never_connected(error) or isinstance(error, errors.RateLimited):
        return True
    if isinstance(error, errors.Conflict):
        return error.code in BUSY
    if repeat is Repeat.CHANGE:
        return False
    if isinstance(error, errors.ServerError):
        if error.code == problems.CONTENT_LOST:
            return False
        return error.status in PASSING or error.retry_after is not None
    # Not after a timeout: the caller has already waited long enough.
    return isinstance(error, errors.Offline)


def never_connected(error: errors.RemoteError) -> bool:
    """Whether the request cannot have reached the service."""
    return isinstance(error, errors.Offline) and isinstance(
        error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError
    )
