"""Debouncing: how long a change rests before upload, so that a burst of saves is one upload.

Each write lets it rest anew.  A file that is written again and again would rest for ever: so what has waited
for long since its first unsent byte is sent as it is at that moment, while its writers go on, and what they
write from then on is the next change.

Rule: a file that grows faster than `BYTES_PER_SECOND` is being made, and is waited for while it is open.
"""

from cmsfs.journal.drafts import Drafts

# Times the settle time that a change rests at most.
LONGEST_TIMES = 10

# What is open for writing all the time, as a log, rests so long at least.
OPEN_SECONDS = 60.0

# A large file is not sent over and over: on average no more of it than this.
BYTES_PER_SECOND = 1024 * 1024


def delay_ns(drafts: Drafts, draft_id: int, size: int, *, settle_seconds: float) -> int:
    """How long a change made now is to rest."""
    left = _longest(size, settle_seconds) - drafts.age(draft_id)
    return int(max(0.0, min(settle_seconds, left)) * 10**9)


def is_overdue(drafts: Drafts, draft_id: int, size: int, *, settle_seconds: float) -> bool:
    """Whether a file that is open for writing, last recorded with this size, is to be sent as it is now."""
    size = drafts.size(draft_id, size)
    return drafts.age(draft_id) > max(OPEN_SECONDS, _longest(size, settle_seconds))


def _longest(size: int, settle_seconds: float) -> float:
    return LONGEST_TIMES * settle_seconds + size / BYTES_PER_SECOND
