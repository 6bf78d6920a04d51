"""The state that the tray icon shows: one of five icons, and a line of text.

Rule: of several drives, the one with the most urgent state is shown; user attention comes first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from cmsfs import output
from cmsfs.ipc import control


class TrayState(NamedTuple):
    """A state, as sent to the panel."""

    icon: str  # a name of the icon theme
    status: str  # of StatusNotifierItem: Passive, Active, NeedsAttention
    words: str


# In order of urgency.
ICONS = ("attention", "offline", "paused", "syncing", "ok")
NONE = TrayState("cmsfs-tray-offline", "Passive", "No drive is mounted")


def of(drive: control.DriveSummary) -> TrayState:
    """Return the state of one drive."""
    icon, words = _found(drive)
    return TrayState(f"cmsfs-tray-{icon}", "NeedsAttention" if icon == "attention" else "Active", words)


def of_all(drives: Sequence[control.DriveSummary]) -> TrayState:
    """Return the most urgent state of several drives."""
    if not drives:
        return NONE
    return min(map(of, drives), key=lambda state: ICONS.index(state.icon.removeprefix("cmsfs-tray-")))


def _found(drive: control.DriveSummary) -> tuple[str, str]:
    if drive.state == "unauthorised":
        return "attention", "Login needed"
    if drive.attention:
        needs = "needs" if drive.attention == 1 else "need"
        return "attention", f"{output.plural(drive.attention, 'item')} {needs} attention"
    if drive.state == "paused":
        until = f" until {drive.paused_until.astimezone():%H:%M}" if drive.paused_until else ""
        return "paused", f"Paused{until}"
    if drive.state in ("offline", "degraded"):
        return "offline", "Offline" if drive.state == "offline" else "The service has problems"
    if drive.pending:
        return "syncing", f"Syncing {output.plural(drive.pending, 'item')}"
    if drive.state == "starting":
        return "syncing", "Starting"
    return "ok", "Up to date, read-only" if drive.state == "read-only" else "Up to date"
