"""A user's graphical session on a test machine, controlled by keys."""

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.machine import Person


def until(condition: Callable[[], object], what: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


class Screen:
    """Ada's graphical session, until she logs out."""

    def __init__(self, person: Person, pictures: Path) -> None:
        self.person = person
        self._pictures = pictures

    def log_in(self) -> None:
        """Log in as a display manager does: through PAM, with the session's own process."""
        unit = f"--unit=session --collect -p User={self.person.name} -p PAMName=login -p WorkingDirectory=~"
        self.person.machine.sh(f"systemd-run {unit} Xvfb :7 -screen 0 1000x700x24 -nolisten tcp")
        until(self.person.has_manager, "the manager of a user who logs in did not come up")
        until(lambda: self.x("xdotool getdisplaygeometry", check=False).returncode == 0, "no screen")
        self.start("windows", "openbox")

    def log_out(self) -> None:
        """Log out, and return when nothing of the session is left."""
        self.person.machine.sh("systemctl stop session")
        until(lambda: not self.person.has_manager(), "the manager of a user who logged out still runs")
        assert not self.person.is_mounted()

    def x(self, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = self.person.sh(
            f"export DISPLAY=:7 NO_AT_BRIDGE=1; {script}", check=check
        )
        return done

    def start(self, unit: str, command: str) -> None:
        """Start a program in the session."""
        # Animations in software OpenGL leave a program no processor time for its files.
        known = {"DISPLAY": ":7", "NO_AT_BRIDGE": "1", "GSK_RENDERER": "cairo", "HOME": self.person.home}
        given = " ".join(f"--setenv={name}={value}" for name, value in known.items())
        self.x(f"systemd-run --user --collect --unit={unit} {given} {command}")

    def window(self, title: str) -> str:
        """Wait for the window whose title has these words."""
        find = f"xdotool search --onlyvisible --name {shlex.quote(title)}"
        until(lambda: self.x(find, check=False).stdout, f"no window of {title}")
        return self.x(find).stdout.split()[0]

    def picture(self, name: str) -> Path:
        """Take a screenshot as a PNG, also for people to look at."""
        self.x(f"scrot -o /tmp/{name}.png")
        target = self._pictures / f"{name}.png"
        shutil.copyfile(self.person.machine.root / "tmp" / f"{name}.png", target)
        return target

    @contextmanager
    def editor(self, path: str) -> Iterator[Callable[[str], None]]:
        """Open a file in a desktop's editor; yield a function that types a line at the end and saves."""
        self.start("editor", f"mousepad {shlex.quote(path)}")
        name = path.rpartition("/")[2]
        window = self.window(name)

        def type_line(line: str) -> None:
            before = self.person.sh(f"cat {path}").stdout
            self.x(
                f"xdotool windowactivate --sync {window} key --delay 50 ctrl+End "
                f"type --delay 30 {shlex.quote(line)}; xdotool key --delay 50 Return ctrl+s"
            )
            wanted = f"{before}{line}\n"
            until(lambda: self.person.sh(f"cat {path}").stdout == wanted, f"{line!r} was not saved")

        yield type_line
        self.picture(name)
        self.x("systemctl --user stop editor")
