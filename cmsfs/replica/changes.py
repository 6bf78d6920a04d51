"""Change notifications from the tree, delivered after the commit.

Code that applies remote updates publishes a `Change` here; the kernel notifier and other agents subscribe.
Changes that the kernel requested itself are not published.

Rule: publish after the commit; a subscriber only records the change, it never blocks and never awaits.
"""

import enum
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from cmsfs.replica.nodes import Ino
from cmsfs.wakeup import Signal


class ChangeKind(enum.Enum):
    """The kinds of change."""

    CONTENT = "content"  # contents, size and times
    ATTRIBUTES = "attributes"  # times and mode, same contents
    ENTRY = "entry"  # `name` in `parent` appeared, disappeared or is another node now
    GONE = "gone"  # `name` in `parent` was node `ino`, which has been deleted


# A tuple: of a first listing there are a million, and making a frozen dataclass takes three times as long.
class Change(NamedTuple):
    """One change; `parent` and `name` are set for ENTRY and GONE.

    `is_new`: for an ENTRY, nothing had this name in this folder before.  `is_same`: for a CONTENT, the
    contents are unchanged, and only the kernel has to drop its cached pages.
    """

    what: ChangeKind
    ino: Ino
    parent: Ino | None = None
    name: str = ""
    is_new: bool = False
    is_same: bool = False


class Hub:
    """Delivers published changes to the subscribers of their kinds, synchronously and in order."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[frozenset[ChangeKind], bool, Callable[[list[Change]], None]]] = []
        self._woken: list[Signal] = []

    def subscribe(
        self,
        callback: Callable[[list[Change]], None],
        kinds: Collection[ChangeKind] = frozenset(ChangeKind),
        *,
        own: bool = True,
    ) -> None:
        """Call `callback` with every batch published from now on that contains changes of these kinds; the
        callback ignores other kinds.  Without `own`: not for changes that a program on this drive
        requested."""
        self._subscribers.append((frozenset(kinds), own, callback))

    def wake(self, signal: Signal) -> None:
        """Set `signal` whenever anything is published from now on."""
        self._woken.append(signal)

    def publish(self, changes: Iterable[Change], *, is_own: bool = False) -> None:
        """Call the subscribers; not for an empty batch.  `is_own`: a program on this drive requested the
        changes."""
        batch = list(changes)
        if not batch:
            return
        kinds = {change.what for change in batch}
        for wanted, own, callback in self._subscribers:
            if not kinds.isdisjoint(wanted) and own >= is_own:
                callback(batch)
        for signal in self._woken:
            signal.set()
