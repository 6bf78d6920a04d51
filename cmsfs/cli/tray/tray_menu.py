"""The tray icon's menu, and its representation in com.canonical.dbusmenu.

Rule: an entry keeps its number until the menu changes; clicks refer to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from cmsfs import printable
from cmsfs.cli.tray import tray_state
from cmsfs.ipc import control

INTERFACE = "com.canonical.dbusmenu"
PATH = "/MenuBar"
LAYOUT = "(ia{sv}av)"
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A menu entry; a separator if it has no label."""

    words: str = ""
    action: str = ""  # open, page, pause, resume, quit; empty for plain text
    account: str = ""
    path: str = ""
    below: tuple["MenuEntry", ...] = field(default=())

    @property
    def properties(self) -> dict[str, tuple[str, Any]]:
        """Return the D-Bus properties, each with its signature."""
        if not self.words:
            return {"type": ("s", "separator")}
        # A single underscore would mark an access key.
        label = printable.escaped(self.words).replace("_", "__")
        said: dict[str, tuple[str, Any]] = {"label": ("s", label)}
        if not (self.action or self.below):
            said["enabled"] = ("b", False)
        if self.below:
            said["children-display"] = ("s", "submenu")
        return said


def entries(
    drives: Sequence[control.DriveSummary], recent: Mapping[str, Sequence[str]]
) -> tuple[MenuEntry, ...]:
    """Build the menu for these drives, with their recently transferred files."""
    end = (MenuEntry(), MenuEntry("Quit", "quit"))
    if not drives:
        return (MenuEntry(tray_state.NONE.words), MenuEntry("Mount and Open", "open"), *end)
    if len(drives) == 1:
        return (*_drive(drives[0], recent.get(drives[0].account, ())), *end)
    return (
        *(
            MenuEntry(
                f"{one.account}: {tray_state.of(one).words}",
                below=_drive(one, recent.get(one.account, ())),
            )
            for one in drives
        ),
        *end,
    )


def _drive(drive: control.DriveSummary, recent: Sequence[str]) -> tuple[MenuEntry, ...]:
    account = drive.account
    files = tuple(
        MenuEntry(PurePath(path).name, "open", account, f"{drive.mountpoint}{path}") for path in recent
    )
    paused = MenuEntry("Resume", "resume", account)
    running = MenuEntry("Pause for an Hour", "pause", account)
    return (
        MenuEntry(tray_state.of(drive).words),
        MenuEntry(),
        MenuEntry("Open Folder", "open", account, drive.mountpoint),
        MenuEntry("Open Page", "page", account),
        MenuEntry("Recent Files", below=files or (MenuEntry("None yet"),)),
        MenuEntry(),
        paused if drive.state == "paused" else running,
    )


class TrayMenu:
    """The menu with numbered entries, as the panel requests it."""

    def __init__(self) -> None:
        self.revision = 1
        self._entries: tuple[MenuEntry, ...] = ()
        self._numbered: dict[int, MenuEntry] = {}
        self._below: dict[int, list[int]] = {0: []}

    def change(self, entries: tuple[MenuEntry, ...]) -> bool:
        """Replace the entries; whether they have changed."""
        if entries == self._entries:
            return False
        self._entries = entries
        self.revision += 1
        self._numbered, self._below = {}, {}
        self._number(0, entries)
        return True

    def _number(self, parent: int, entries: tuple[MenuEntry, ...]) -> None:
        numbers = self._below.setdefault(parent, [])
        for entry in entries:
            number = len(self._numbered) + 1
            self._numbered[number] = entry
            numbers.append(number)
            self._number(number, entry.below)

    def find(self, number: int) -> MenuEntry | None:
        return self._numbered.get(number)

    def first(self, action: str) -> MenuEntry | None:
        """Return the first entry with this action."""
        return next((one for one in self._numbered.values() if one.action == action), None)

    def properties(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, tuple[str, Any]]]]:
        """Yield the properties of these entries, or of all if none is given."""
        for number in numbers or (0, *self._numbered):
            yield number, self._properties(number)

    def layout(
        self, number: int, depth: int
    ) -> tuple[int, dict[str, tuple[str, Any]], list[tuple[str, Any]]]:
        """Return an entry (0: the menu) with `depth` levels of children; -1: all."""
        below = self._below.get(number, []) if depth else []
        return (
            number,
            self._properties(number),
            [(LAYOUT, self.layout(child, depth - 1)) for child in below],
        )

    def _properties(self, number: int) -> dict[str, tuple[str, Any]]:
        if entry := self._numbered.get(number):
            return entry.properties
        return {"children-display": ("s", "submenu")} if number == 0 else {}
