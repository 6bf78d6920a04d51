"""What happens to a failed operation: retried with backoff, or held until the user decides.

Rule: whatever may be transient is retried forever; only a refusal that a retry cannot change is held.
"""

from dataclasses import dataclass

from cmsfs import errors
from cmsfs.client.transport import retry
from cmsfs.user_messages import explain
from daemon.push.context import wait_ns

# What a user can do about a refusal, by its code.
FULL = "storage_limit_exceeded"
REMEDIES = {
    FULL: "Free up space at the service",
    "file_size_limit_exceeded": "Split the file or ask for a larger plan",
    "forbidden_by_policy": "Ask who administers the policy",
    "access_denied_item_locked": "Wait until the file is unlocked",
    "access_denied_insufficient_permissions": "Ask the owner for the right",
    "item_name_invalid": "Rename it",
    "item_name_too_long": "Give it a shorter name",
}
EMPTIED = (
    "The web link has been emptied. Write an address into it, as URL=https://..., or delete it; or take the "
    "old one back with `cmsfs discard`."
)
LOST_BASE = (
    "It was modified before it was fully downloaded, and the service no longer has the rest. Your "
    "changes are kept locally; `cmsfs retry` asks for the rest again, `cmsfs discard` moves what there is to "
    "the recovered files."
)
DAMAGED = (
    "Its contents on this disk are damaged, as after a power failure. Write the file again, or drop it with "
    "`cmsfs discard`, which moves what there is to the recovered files."
)
ANY_REMEDY = "Fix the cause"

# A refusal without a code may be a response that lost its body in transit: it counts only if repeated.
WORDLESS_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """What to do with a failed operation; `wait_ns` None: hold it.  `reason` is one sentence for the user."""

    wait_ns: int | None
    reason: str


def verdict_for(error: Exception, attempts: int) -> FailureVerdict:
    """Return the verdict on this error after `attempts` earlier failures."""
    if isinstance(error, errors.MissingBlocks):
        return FailureVerdict(None, "Its contents are no longer on this disk.")
    if isinstance(error, errors.DamagedContent):
        return FailureVerdict(None, DAMAGED)
    if isinstance(error, errors.LostBase):
        return FailureVerdict(None, LOST_BASE)
    if isinstance(error, errors.Emptied):
        return FailureVerdict(None, EMPTIED)
    if isinstance(error, OSError):
        return FailureVerdict(wait_ns(attempts), f"{error.strerror or error}.")
    if not isinstance(error, errors.RemoteError):
        # Contents damaged in transit, or changed during the upload.
        return FailureVerdict(wait_ns(attempts), f"{error}.")
    reason = explain(error).message
    if isinstance(error, errors.RateLimited | errors.ServerError):
        asked = int((error.retry_after or 0) * 10**9)
        return FailureVerdict(max(asked, wait_ns(attempts)), reason)
    is_wordless = isinstance(error, errors.ApiError) and not error.code and attempts < WORDLESS_ATTEMPTS
    if is_wordless or not _is_final(error):
        return FailureVerdict(wait_ns(attempts), reason)
    remedy = REMEDIES.get(getattr(error, "code", ""), ANY_REMEDY)
    return FailureVerdict(
        None, f"{reason} {remedy}, then run `cmsfs retry`; or discard it with `cmsfs discard`."
    )


def _is_final(error: errors.RemoteError) -> bool:
    match error:
        case errors.Conflict():
            # Names in use are resolved earlier; other conflicts do not resolve themselves.
            return error.code not in retry.BUSY
        case errors.Unauthorized() | errors.PreconditionFailed() | errors.Gone():
            return False
        case errors.ApiError():
            return True
        case _:
            return False
