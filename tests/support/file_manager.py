"""The file manager on a person's screen: what its windows show, and keys for them.

What a window lists is read as a person would take it along: everything chosen and copied, which is in the
clipboard then.  What is marked is read off the screen, by the colours of our emblems.

Rule: a picture is taken of what a test is about, for people to look at.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image

from tests.support.screen import Screen

EMBLEMS = Path(__file__).parents[2] / "packaging" / "desktop"
STATES = ("synced", "syncing", "pinned", "conflict", "held", "online")

# Where a window of the file manager has its files, and how large its emblems are.
VIEW = (301, 127, 940, 590)
EMBLEM_PIXELS = 16
# Smoothed edges are other colours; the colours of two emblems are further apart than that.
NEAR = 24


class Files:
    """Nautilus on a screen, with Ada's drive; one program at a time."""

    def __init__(self, screen: Screen, until: Callable[..., None]) -> None:
        self.screen = screen
        self.person = screen.person
        self.until = until
        self.top = f"{self.person.home}/cmsfs"

    def show(self, path: str) -> str:
        """Start it with an item of the drive chosen in the folder where it is; that window."""
        self.close()
        self.screen.start("files", f"nautilus --select {shlex.quote(f'{self.top}/{path}')}")
        return self.wait_for(path)

    def show_too(self, path: str) -> str:
        """Another window of the same program; it has the keys."""
        self.screen.x(f"nautilus --select {shlex.quote(f'{self.top}/{path}')}")
        return self.wait_for(path)

    def wait_for(self, path: str) -> str:
        """The window with the folder of an item."""
        return str(self.screen.window(f"^{re.escape(Path('/cmsfs', path).parent.name)}$"))

    def close(self) -> None:
        self.screen.x("systemctl --user stop files", check=False)

    def press(self, window: str, *keys: str) -> None:
        words = " ".join(keys)
        self.screen.x(f"xdotool windowactivate --sync {window} key --delay 300 {words}")

    def listed(self, window: str) -> list[str]:
        """The names in a window in which something is chosen, as they are sorted by character."""
        _, names = self._take(window, "ctrl+a", "ctrl+c")
        return names

    def cut(self, window: str) -> list[str]:
        """Cut what is chosen in a window, to be pasted in another one; its names."""
        how, names = self._take(window, "ctrl+x")
        assert how == "cut"
        return names

    def _take(self, window: str, *keys: str) -> tuple[str, list[str]]:
        # What was copied before must not be taken for this.
        self.screen.x("xclip -selection clipboard </dev/null >/dev/null 2>&1")
        found: list[str] = []

        def taken() -> bool:
            # A window that has nothing to show yet hears no keys.
            self.press(window, *keys)
            told = self.screen.x("xclip -o -selection clipboard -t x-special/gnome-copied-files", check=False)
            found[:] = told.stdout.split()
            return bool(found)

        self.until(taken, what="nothing was taken from the window")
        return found[0], sorted(unquote(urlsplit(uri).path).rpartition("/")[2] for uri in found[1:])

    def attribute(self, path: str, name: str) -> str:
        """What an item of the drive says; "" if it says nothing of this."""
        asked = f"import os; print(os.getxattr({f'{self.top}/{path}'!r}, 'user.cms.{name}').decode())"
        return str(self.person.sh(f"python3 -c {shlex.quote(asked)}", check=False).stdout.strip())

    def clipboard(self) -> str:
        """The text in it."""
        return str(self.screen.x("xclip -o -selection clipboard", check=False).stdout.strip())

    def choose(self, window: str, *, above_the_last: int) -> None:
        """An entry of the menu of the chosen file, counted from its end."""
        # The keys open what the pointer would, and `Up` begins at the end, or where the pointer lies.
        self.screen.x(
            f"xdotool mousemove 1 1 windowactivate --sync {window} key --delay 300 shift+F10; sleep 1"
        )
        self.screen.x(f"xdotool key --delay 300 {' '.join(['Up'] * (above_the_last + 1))}")
        self.screen.picture(f"menu-{above_the_last}")
        self.screen.x("xdotool key Return")

    def marks(self, picture: str) -> list[str]:
        """The states that the files of the only window are marked with, as one reads; takes a picture."""
        with Image.open(self.screen.picture(picture)) as image:
            return _marks(image.convert("RGB").crop(VIEW))


def _marks(view: Image.Image) -> list[str]:
    found: list[tuple[int, int, str]] = []
    colours = {state: colour(state) for state in STATES}
    data, width = view.tobytes(), view.width
    points = [data[at : at + 3] for at in range(0, len(data), 3)]
    meant = {each: state for each in set(points) for state, colour in colours.items() if _near(each, colour)}
    for at, point in enumerate(points):
        if state := meant.get(point):
            y, x = divmod(at, width)
            if not any(_near((x, y), one[:2]) for one in found if one[2] == state):
                found.append((x, y, state))
    lines: list[list[tuple[int, int, str]]] = []
    for one in found:  # by y
        if not lines or one[1] - lines[-1][0][1] > 2 * EMBLEM_PIXELS:
            lines.append([])
        lines[-1].append(one)
    return [state for line in lines for _, _, state in sorted(line)]


def _near(one: Iterable[int], other: Iterable[int]) -> bool:
    return all(abs(a - b) < NEAR for a, b in zip(one, other, strict=True))


def colour(state: str) -> tuple[int, int, int]:
    """The colour that only this emblem has: the last one in its picture that is not white."""
    found = re.findall(r"#([0-9a-f]{6})\b", (EMBLEMS / f"emblem-cmsfs-{state}.svg").read_text())
    red, green, blue = bytes.fromhex(found[-1])
    return red, green, blue
