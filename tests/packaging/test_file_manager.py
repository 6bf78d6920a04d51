"""The package's extension in a real Nautilus on a screen: its menu acts on the drive, and it never waits."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def files(workstation: Any, package: Path, screen: Any) -> Any:
    """Ada's screen; she has the package and a drive with its own service, `notes.txt` new on it."""
    shutil.copyfile(package, f"/proc/{workstation.leader}/root/srv/{package.name}")
    workstation.sh(f"dpkg -i /srv/{package.name}")
    screen.log_in()
    screen.person.serve()
    screen.person.sh("cmsfs mount --enable; echo notes > cmsfs/notes.txt; cmsfs sync")
    yield screen
    screen.log_out()


def show(screen: Any, until: Any) -> str:
    """Have Nautilus show the drive with the new file chosen; its window."""
    screen.x("systemctl --user stop files", check=False)
    screen.start("files", f"nautilus --select {screen.person.home}/cmsfs/notes.txt")
    window = str(screen.window("cmsfs"))
    until(lambda: marks(screen.picture("states"))[0], what="nothing is marked as synced")
    return window


def marks(picture: Path) -> tuple[int, int]:
    """How many points of the window are green, and red: only emblems have such colours here."""
    with Image.open(picture) as image:
        data = image.convert("RGB").crop((301, 127, 940, 575)).tobytes()
    points = list(zip(data[::3], data[1::3], data[2::3], strict=True))
    green = sum(1 for r, g, b in points if g > r + 40 and g > b + 40)
    red = sum(1 for r, g, b in points if r > g + 80 and r > b + 80)
    return green, red


def choose(screen: Any, window: str, *, above_the_last: int) -> None:
    """An entry of the menu of the chosen file, counted from its end."""
    # The keys open what the pointer would, and `Up` begins at the end.
    keys = " ".join(["Up"] * (above_the_last + 1))
    screen.x(f"xdotool windowactivate --sync {window} key --delay 300 shift+F10; sleep 1")
    screen.x(f"xdotool key --delay 300 {keys}")
    screen.picture(f"menu-{above_the_last}")
    screen.x("xdotool key Return")


def pins(person: Any) -> list[str]:
    found = json.loads(person.sh("cmsfs pins --json").stdout)
    return [one["path"] for one in found["items"]]


def test_it_shows_the_states_and_its_menu_acts_on_the_drive(files: Any, until: Any) -> None:
    person = files.person
    person.sh("cmsfs pin /Reports")
    window = show(files, until)
    until(lambda: marks(files.picture("states"))[1], what="nothing is marked as pinned")
    before = marks(files.picture("states"))[1]
    choose(files, window, above_the_last=3)
    until(lambda: "/notes.txt" in pins(person), what="the file was not pinned by the menu")
    until(lambda: marks(files.picture("pinned"))[1] > before, what="the pinned file has no mark of it")
    choose(files, window, above_the_last=3)
    until(lambda: "/notes.txt" not in pins(person), what="the file was not let go by the menu")


def test_a_daemon_that_hangs_does_not_stop_the_file_manager(files: Any, until: Any) -> None:
    person = files.person
    window = show(files, until)
    daemon = person.unit("MainPID")
    person.sh(f"kill -STOP {daemon}")
    try:
        # The menu is asked for, and another folder.
        files.x(f"xdotool windowactivate --sync {window} key --delay 300 shift+F10 Escape alt+Home")
        assert files.window("Home")
    finally:
        person.sh(f"kill -CONT {daemon}")
