"""A line diff of two texts with bounded running time.

Finds the shortest edit script (Myers) up to `MOST_EDITS`; if it would be longer, everything between the first
and the last difference is shown as replaced.  Python's `difflib` takes minutes for some texts of a few
hundred kilobytes.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

# The number of steps is at most the square of this, and the memory half of that.
MOST_EDITS = 200

# Context lines around a difference, and the maximum number of lines shown.
AROUND = 3
MOST_LINES = 600

# Maximum length of a shown line, since a line may be a whole file.
MOST_COLUMNS = 400


class DiffLine(NamedTuple):
    """One line: unchanged, removed or added; `gap`: the number of unchanged lines omitted before it."""

    kind: Literal["same", "old", "new", "gap"]
    text: str


def compare(old: str, new: str) -> list[DiffLine]:
    """Return the diff from `old` to `new` with context lines; empty if they are equal."""
    lines = list(_edits(old.splitlines(), new.splitlines()))
    changed = (number for number, line in enumerate(lines) if line.kind != "same")
    first = itertools.islice(changed, MOST_LINES)
    near = {place for number in first for place in range(number - AROUND, number + AROUND + 1)}
    if not near:
        return []
    shown: list[DiffLine] = []
    hidden = 0
    for number, line in enumerate(lines):
        if number not in near:
            hidden += 1
            continue
        if hidden:
            shown.append(DiffLine("gap", f"{hidden} lines"))
            hidden = 0
        if len(shown) >= MOST_LINES:
            shown.append(DiffLine("gap", "more"))
            return shown
        shown.append(line._replace(text=line.text[:MOST_COLUMNS]))
    if hidden:
        shown.append(DiffLine("gap", f"{hidden} lines"))
    return shown


def _edits(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    yield from (DiffLine("same", line) for line in old[:first])
    yield from _middle(old[first : len(old) - last], new[first : len(new) - last])
    yield from (DiffLine("same", line) for line in old[len(old) - last :])


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _middle(old: Sequence[str], new: Sequence[str]) -> list[DiffLine]:
    numbers: dict[str, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    way = _shortest(left, right)
    if way is None:
        return [DiffLine("old", line) for line in old] + [DiffLine("new", line) for line in new]
    found: list[DiffLine] = []
    x, y = len(old), len(new)
    for depth in range(len(way) - 1, 0, -1):
        reached = way[depth - 1]
        k = x - y
        down = k == -depth or (k != depth and reached.get(k - 1, -1) < reached.get(k + 1, -1))
        before = reached[k + 1] if down else reached[k - 1]
        while x > before + (not down) and y > before - (k + 1 if down else k - 1) + down:
            x, y = x - 1, y - 1
            found.append(DiffLine("same", old[x]))
        if down:
            y -= 1
            found.append(DiffLine("new", new[y]))
        else:
            x -= 1
            found.append(DiffLine("old", old[x]))
    found += [DiffLine("same", line) for line in reversed(old[:x])]
    return found[::-1]


def _shortest(old: Sequence[int], new: Sequence[int]) -> list[dict[int, int]] | None:
    """Return the furthest positions for each number of edits, by diagonal; None if it takes too many."""
    way: list[dict[int, int]] = []
    reached: dict[int, int] = {1: 0}
    for depth in range(min(MOST_EDITS, len(old) + len(new)) + 1):
        now: dict[int, int] = {}
        for k in range(-depth, depth + 1, 2):
            down = k == -depth or (k != depth and reached.get(k - 1, -1) < reached.get(k + 1, -1))
            x = reached.get(k + 1, -1) if down else reached.get(k - 1, -1) + 1
            y = x - k
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            now[k] = x
            if x >= len(old) and y >= len(new):
                way.append(now)
                return way
        way.append(now)
        reached = now
    return None
