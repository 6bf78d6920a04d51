"""What the icon says of the drives, and the menu that belongs to it."""

import datetime
from typing import Any

import pytest

from cmsfs.cli.tray import tray_menu, tray_state
from cmsfs.ipc import control


def drive(account: str = "default", state: str = "online", **more: Any) -> control.DriveSummary:
    return control.DriveSummary(account=account, mountpoint=f"/mnt/{account}", state=state, **more)


@pytest.mark.parametrize(
    ("told", "icon", "words"),
    [
        (drive(), "ok", "Up to date"),
        (drive(pending=1), "syncing", "Syncing 1 item"),
        (drive(pending=3), "syncing", "Syncing 3 items"),
        (drive(state="starting"), "syncing", "Starting"),
        (drive(state="offline", pending=3), "offline", "Offline"),
        (drive(state="degraded"), "offline", "The service has problems"),
        (drive(state="paused", pending=3), "paused", "Paused"),
        (drive(state="read-only"), "ok", "Up to date, read-only"),
        (drive(state="offline", attention=1), "attention", "1 item needs attention"),
        (drive(state="unauthorised"), "attention", "Login needed"),
    ],
)
def test_icon_and_words_of_a_drive(told: control.DriveSummary, icon: str, words: str) -> None:
    state = tray_state.of(told)
    assert (state.icon, state.words) == (f"cmsfs-tray-{icon}", words)
    assert (state.status == "NeedsAttention") == (icon == "attention")


def test_a_pause_says_until_when() -> None:
    until = datetime.datetime(2026, 1, 1, 15, 5).astimezone()
    assert tray_state.of(drive(state="paused", paused_until=until)).words == "Paused until 15:05"


def test_the_drive_that_needs_most_is_shown() -> None:
    drives = [drive("a"), drive("b", attention=2), drive("c", state="offline")]
    assert tray_state.of_all(drives).words == "2 items need attention"
    assert tray_state.of_all([drives[0], drives[2]]).words == "Offline"
    assert tray_state.of_all([]) == tray_state.NONE


def words(entries: tuple[tray_menu.MenuEntry, ...]) -> list[str]:
    return [entry.words for entry in entries]


def test_menu_of_one_drive() -> None:
    found = tray_menu.entries([drive()], {"default": ["/a/b_c.txt"]})
    assert words(found) == [
        "Up to date",
        "",
        "Open Folder",
        "Open Page",
        "Recent Files",
        "",
        "Pause for an Hour",
        "",
        "Quit",
    ]
    (recent,) = found[4].below
    assert (recent.words, recent.path) == ("b_c.txt", "/mnt/default/a/b_c.txt")
    assert recent.properties["label"] == ("s", "b__c.txt")
    assert "Resume" in words(tray_menu.entries([drive(state="paused")], {}))


def test_menu_of_two_drives_names_their_accounts() -> None:
    found = tray_menu.entries([drive("home"), drive("work", state="offline")], {})
    assert words(found) == ["home: Up to date", "work: Offline", "", "Quit"]
    assert {entry.account for entry in found[1].below if entry.action} == {"work"}


def test_menu_without_a_drive_mounts_one() -> None:
    assert [entry.action for entry in tray_menu.entries([], {})] == ["", "open", "", "quit"]


def test_an_entry_is_found_by_its_number_in_the_layout() -> None:
    menu = tray_menu.TrayMenu()
    assert menu.change(tray_menu.entries([drive()], {}))
    assert not menu.change(tray_menu.entries([drive()], {}))
    _, _, below = menu.layout(0, -1)
    found = [menu.find(number) for _, (number, _, _) in below]
    assert tuple(found) == tray_menu.entries([drive()], {})
    assert [len(child[2]) for _, child in below if child[2]] == [1]
    assert menu.layout(0, 0)[2] == []
    assert menu.find(999) is None
