"""Detects operations that are retried again and again without an error.

What is carried out may find that it is not the time, and gives the operation back at once, expecting that
something else has changed by the next look.  Where that never comes, looking would go on without a rest.

Rule: after a few rounds it rests as after a failure, ever longer, and is told as one.
"""

from cmsfs.journal.ops import Op

# Looks that may bring nothing.
FREE_ROUNDS = 3

REASON = "Retrying makes no progress"

# What has failed so often has been tried for a minute, and may be given up by who does not want to wait.
TIRED_ATTEMPTS = 6


# Looks that brought nothing, by the number of the operation: its revision then, and how many.
Rounds = dict[int, tuple[int, int]]


def is_circling(rounds: Rounds, before: Op, after: Op, *, now_ns: int) -> bool:
    """Whether an operation has come back too often, as it was and at once; `rounds` is kept up to date."""
    as_it_was = ("ready", before.attempts, before.revision)
    if (after.state, after.attempts, after.revision) != as_it_was or after.not_before > now_ns:
        rounds.pop(before.seq, None)
        return False
    revision, count = rounds.get(before.seq, (before.revision, 0))
    count = count + 1 if revision == before.revision else 1
    rounds[before.seq] = (before.revision, count)
    return count > FREE_ROUNDS


def is_looping(op: Op) -> bool:
    """Whether it has got nowhere for a minute or more."""
    return op.state == "ready" and op.attempts >= TIRED_ATTEMPTS and op.error is not None
