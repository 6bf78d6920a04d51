"""Names that the kernel's own rename gives to an inode which the drive no longer had there.

A rename request has names only.  While a remote change of the old name is on its way to the kernel, the drive
moves the node that has the name now, but the kernel carries along the one that it remembers: the new name
would show a file that is elsewhere, until its timeout.  So the new name is invalidated, too.

The change may be published after the rename that came between its commit and that moment, so both are
remembered.
"""

from collections.abc import Iterable
from typing import TypeVar

from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.inodes import MOMENT_SECONDS
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock

_Place = tuple[Ino, str]
_T = TypeVar("_T")

# Only so many of the latest are remembered: the kernel hears of a change within a moment.
_MOST = 4096


class CarriedNames:
    """Recent changes of names, and where programs have moved these since."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._changed: dict[_Place, float] = {}
        self._carried: dict[_Place, tuple[_Place, float]] = {}
        hub.subscribe(self._on_changes, {ChangeKind.ENTRY, ChangeKind.GONE})

    def renamed(self, old: _Place, new: _Place, *, is_exchange: bool = False) -> None:
        """A program has renamed `old` to `new`."""
        now = clock.monotonic()
        carried = [(old, new), (new, old)] if is_exchange else [(old, new)]
        for before, after in carried:
            if now - self._changed.get(before, -MOMENT_SECONDS) < MOMENT_SECONDS:
                self._invalidate(after)
        for before, after in carried:
            _remember(self._carried, before, (after, now))

    def _on_changes(self, changes: Iterable[Change]) -> None:
        now = clock.monotonic()
        for change in changes:
            if change.parent is None or change.is_new:
                continue
            place = change.parent, change.name
            _remember(self._changed, place, now)
            carried = self._carried.pop(place, None)
            if carried is not None and now - carried[1] < MOMENT_SECONDS:
                self._invalidate(carried[0])

    def _invalidate(self, place: _Place) -> None:
        # Comes back to `_on_changes`, so a further rename carries it on.
        self._hub.publish([Change(ChangeKind.ENTRY, 0, *place)], is_own=True)


def _remember(found: dict[_Place, _T], place: _Place, value: _T) -> None:
    found.pop(place, None)
    found[place] = value
    if len(found) > _MOST:
        del found[next(iter(found))]
