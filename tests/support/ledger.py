"""What programs were told is kept, and what must therefore be true at the service: the judge of stories in
which several drives work on one account.

Rule: a content may be gone only if a program on the drive that has it has seen it and put something in its
place; a version may follow only one that its writer has seen.
"""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

# The writer did not look at what was there in one step with replacing it: any version may be below.
ANY = "any"


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@dataclass
class Ledger:
    """`acknowledged`: what each content that was closed without an error was written over (None: nothing);
    `replaced`: contents that somebody has seen and overwritten or deleted."""

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)

    def wrote(self, data: bytes, *, over: str | None) -> None:
        """A program has written this, and closed the file."""
        self.acknowledged[sha1(data)] = over

    def saw_and_replaced(self, data: bytes) -> None:
        """A program has read this and put something else in its place, or nothing."""
        self.replaced.add(sha1(data))

    def put_anywhere(self, data: bytes) -> None:
        """A program has moved this over something else: it may follow what was there."""
        self.acknowledged[sha1(data)] = ANY

    def vanished(self, kept: Iterable[str]) -> list[str]:
        """Contents that are neither among those that the service has nor were given up by somebody."""
        return sorted(self.acknowledged.keys() - self.replaced - set(kept))

    def unseen(self, versions: Iterable[list[str]]) -> list[tuple[str, str]]:
        """Of files' versions, the oldest first: pairs of which the second overwrote the first unseen."""
        found = []
        for chain in versions:
            for place, (old, new) in enumerate(itertools.pairwise(chain)):
                if old != new and not self._has_seen(new, old, before=set(chain[:place])):
                    found.append((old, new))
        return found

    def _has_seen(self, new: str, old: str, *, before: set[str]) -> bool:
        """Whether `new` was written over `old`, or over something that never got there and was."""
        current: str | None = new
        for _ in range(len(self.acknowledged) + 1):
            if current not in self.acknowledged:
                return False
            current = self.acknowledged[current]
            if current in (old, ANY):
                return True
            if current in before:
                return False
        return False
