"""Change notifications from the tree, delivered after the commit.

Whoever applies what the service says publishes a `Change` here; the kernel's notifier and other agents
listen.  Changes that come from the kernel itself are not published: the kernel made them.

Rule: publish after the commit; a subscriber only notes the change, it never blocks and never awaits.
"""

import enum
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from cmsfs.replica.nodes import Ino
from cmsfs.wakeup import Signal


class ChangeKind(enum.Enum):
    """The kinds of change."""

    CONTENT = "content"  # other bytes, size, times
    ATTRIBUTES = "attributes"  # times, mode; the bytes are as they were
    ENTRY = "entry"  # `name` in `parent` appeared, vanished or is another node now
    GONE = "gone"  # `name` in `parent` was node `ino`, which is deleted


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `parent` and `name` are set for ENTRY and GONE.

    `is_new`: of an ENTRY, nothing had this name in this folder before.  `is_same`: of a CONTENT, the bytes
    are what they were, and the kernel is only to drop what it has of them: no news to anybody else.
    """

    what: ChangeKind
    ino: Ino
    parent: Ino | None = None
    name: str = ""
    is_new: bool = False
    is_same: bool = False


class Hub:
    """Hands published changes to whoever wants their kind, in order, at once."""

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
        """Call `callback` with every batch published from now on that has changes of these kinds; it looks
        at those alone.  Without `own`: not with what a program of this drive has asked for."""
        self._subscribers.append((frozenset(kinds), own, callback))

    def wake(self, signal: Signal) -> None:
        """Set `signal` whenever anything is published from now on."""
        self._woken.append(signal)

    def publish(self, changes: Iterable[Change], *, is_own: bool = False) -> None:
        """Tell the subscribers; an empty batch tells nobody.  `is_own`: a program of this drive has asked for
        these changes."""
        batch = list(changes)
        if not batch:
            return
        kinds = {change.what for change in batch}
        for wanted, own, callback in self._subscribers:
            if not kinds.isdisjoint(wanted) and own >= is_own:
                callback(batch)
        for signal in self._woken:
            signal.set()
