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


class LoopDetector:
    """Tracks recently retried operations."""

    def __init__(self) -> None:
        self._rounds: dict[int, tuple[int, int]] = {}  # by number: revision and rounds

    def circles(self, before: Op, after: Op | None, *, now_ns: int) -> bool:
        """Whether this one has come back too often; `after`: as it is by now, None if it has ended."""
        same = after is not None and (after.state, after.attempts, after.revision) == (
            "ready",
            before.attempts,
            before.revision,
        )
        if not same or after is None or after.not_before > now_ns:
            self._rounds.pop(before.seq, None)
            return False
        revision, rounds = self._rounds.get(before.seq, (before.revision, 0))
        rounds = rounds + 1 if revision == before.revision else 1
        self._rounds[before.seq] = (before.revision, rounds)
        return rounds > FREE_ROUNDS


def is_looping(op: Op) -> bool:
    """Whether it has got nowhere for a minute or more."""
    return op.state == "ready" and op.attempts >= TIRED_ATTEMPTS and op.error is not None
