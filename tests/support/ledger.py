"""Records what programs were promised, and checks it at the service: for tests in which several drives work
on one account.

Rules: a content may be gone only if a program has read it and replaced or deleted it; a version may follow
only one that its writer has read.
"""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

# The writer did not read and replace atomically, so it may have replaced any version.
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
        """A program has written this over `over`, and closed the file without an error."""
        self.acknowledged[sha1(data)] = over

    def saw_and_replaced(self, data: bytes) -> None:
        """A program has read this, and replaced or deleted it."""
        self.replaced.add(sha1(data))

    def put_anywhere(self, data: bytes) -> None:
        """A program has moved this over another file, so it may follow any version."""
        self.acknowledged[sha1(data)] = ANY

    def vanished(self, kept: Iterable[str]) -> list[str]:
        """Return acknowledged contents that are neither in `kept` nor were replaced or deleted."""
        return sorted(self.acknowledged.keys() - self.replaced - set(kept))

    def unseen(self, versions: Iterable[list[str]]) -> list[tuple[str, str]]:
        """Return pairs of versions of which the second overwrote the first unread (`versions`: oldest
        first)."""
        found = []
        for chain in versions:
            for place, (old, new) in enumerate(itertools.pairwise(chain)):
                if old != new and not self._has_seen(new, old, before=set(chain[:place])):
                    found.append((old, new))
        return found

    def _has_seen(self, new: str, old: str, *, before: set[str]) -> bool:
        """Return whether `new` was written over `old`, directly or through contents without a version."""
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
