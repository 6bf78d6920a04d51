"""Detects operations that are retried repeatedly without an error.

An operation may find that it cannot run yet and put itself back at once, expecting that something has changed
by the next attempt.  If that never happens, it would be retried in a busy loop.

Rule: after a few such rounds the operation backs off as after a failure, and is reported as one.
"""

from cmsfs.journal.ops import Op

# Rounds without progress before the backoff.
FREE_ROUNDS = 3

REASON = "Retrying makes no progress"

# After this many attempts, about a minute, an operation counts as stuck, and the user may discard it.
TIRED_ATTEMPTS = 6


# Rounds without progress by operation: its revision at that time, and their number.
Rounds = dict[int, tuple[int, int]]


def is_circling(rounds: Rounds, before: Op, after: Op, *, now_ns: int) -> bool:
    """Whether an operation was put back too often, unchanged and due at once; updates `rounds`."""
    as_it_was = ("ready", before.attempts, before.revision)
    if (after.state, after.attempts, after.revision) != as_it_was or after.not_before > now_ns:
        rounds.pop(before.seq, None)
        return False
    revision, count = rounds.get(before.seq, (before.revision, 0))
    count = count + 1 if revision == before.revision else 1
    rounds[before.seq] = (before.revision, count)
    return count > FREE_ROUNDS


def is_looping(op: Op) -> bool:
    """Whether it has made no progress for a minute or more."""
    return op.state == "ready" and op.attempts >= TIRED_ATTEMPTS and op.error is not None
