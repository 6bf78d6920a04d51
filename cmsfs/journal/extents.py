"""A set of byte ranges: which parts of a file a draft contains.

Pure data, kept sorted, disjoint and merged.
"""

import bisect
import json
from collections.abc import Iterable, Iterator


class Extents:
    """Half-open byte ranges `[start, end)`."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.end = 0  # of the last range
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extents) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Extents({list(self)})"

    def add(self, start: int, end: int) -> None:
        """Add a range, merging it with adjacent and overlapping ones."""
        if start >= end:
            return
        # All ranges from `first` up to `last` touch or overlap the new one.
        first = bisect.bisect_left(self._ends, start)
        last = bisect.bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self.end = self._ends[-1]

    def clip(self, size: int) -> None:
        """Remove everything from `size` on."""
        keep = bisect.bisect_left(self._starts, size)
        del self._starts[keep:], self._ends[keep:]
        if self._ends and self._ends[-1] > size:
            self._ends[-1] = size
        self.end = self._ends[-1] if self._ends else 0

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Split `[start, end)` into runs `(start, end, held)`, in order."""
        at = start
        index = bisect.bisect_right(self._ends, start)
        while at < end:
            if index == len(self._starts) or self._starts[index] >= end:
                yield at, end, False
                return
            if self._starts[index] > at:
                yield at, self._starts[index], False
                at = self._starts[index]
            stop = min(self._ends[index], end)
            yield at, stop, True
            at = stop
            index += 1

    def covers(self, start: int, end: int) -> bool:
        """Whether all of `[start, end)` is included."""
        return all(held for _, _, held in self.pieces(start, end))

    def to_json(self) -> str:
        ranges = zip(self._starts, self._ends, strict=True)
        return f"[{','.join(f'[{start},{end}]' for start, end in ranges)}]"

    @classmethod
    def from_json(cls, text: str) -> "Extents":
        return cls((start, end) for start, end in json.loads(text))
