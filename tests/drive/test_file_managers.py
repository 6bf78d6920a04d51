"""What programs that watch folders of a drive hear of changes made elsewhere, in much and in all programs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.inotify import Trace
from tests.support.mounted_drive import MountedDrive
from tests.support.served import Api, until

MANY = 1000


@pytest.mark.long
@pytest.mark.skipif(shutil.which("inotifywait") is None, reason="inotifywait (inotify-tools) is missing")
def test_a_thousand_new_files_are_heard(stopped: MountedDrive, api: Api) -> None:
    top = stopped.top
    root = Trace(top)
    folder = api.folder("box")
    root.until("CREATE/", "box")
    root.close()
    assert list((top / "box").iterdir()) == []
    watch = Trace(top / "box")
    command = ["inotifywait", "-mr", "-e", "create", "--format", "%w%f", str(top)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as told:
        assert told.stdout is not None
        assert told.stderr is not None
        while "established" not in told.stderr.readline():
            pass
        for number in range(MANY):
            api.file(f"{number:04}", b"x", folder)
        events = watch.until("CLOSE_WRITE", f"{MANY - 1:04}")
        recursive = [told.stdout.readline().strip() for _ in range(MANY)]
        told.terminate()
    names = [f"{number:04}" for number in range(MANY)]
    assert sorted(events) == sorted((kind, name) for name in names for kind in ("CREATE", "CLOSE_WRITE"))
    assert recursive == [str(top / "box" / name) for name in names]
    # A save of this machine is told by the kernel alone, and its upload is no news.
    (top / "box" / "mine").write_bytes(b"mine")
    stopped.sync()
    api.file("theirs", b"x", folder)
    assert watch.until("CLOSE_WRITE", "theirs") == [
        *[("CREATE", "mine"), ("MODIFY", "mine"), ("CLOSE_WRITE", "mine")],
        *[("CREATE", "theirs"), ("CLOSE_WRITE", "theirs")],
    ]
    watch.close()


PROGRAMS = ("nautilus", "thunar", "dolphin", "pcmanfm", "nemo")
TOOLS = ("Xvfb", "dbus-run-session", "import")


class Shown:
    """A screen with the window of one file manager."""

    def __init__(self, number: str, pictures: Path) -> None:
        self._number, self._pictures = number, pictures

    def picture(self, name: str = "now") -> bytes:
        """What is on the screen, also as a PNG for people to look at."""
        path = self._pictures / f"{name}.png"
        command = ["import", "-display", self._number, "-window", "root", "+set", "date:create", str(path)]
        done = subprocess.run(command, stderr=subprocess.DEVNULL)
        # Pixels alone: a picture's file has the time in it.
        pixels = subprocess.run(["convert", str(path), "rgb:-"], capture_output=True).stdout
        return pixels if done.returncode == 0 else b""

    def rests(self, *, unlike: bytes) -> bytes:
        """The picture that comes, unlike another one, once it does not change any more."""
        last = [b"", b"", b""]

        def is_at_rest() -> bool:
            last.append(self.picture())
            del last[0]
            return last[0] not in (b"", unlike) and last[0] == last[1] == last[2]

        until(is_at_rest)
        return last[0]


@contextmanager
def showing(program: str, folder: Path, number: str, home: Path) -> Iterator[Shown]:
    """A file manager's window of a folder, on a screen of its own."""
    home.mkdir()
    known = {"DISPLAY": number, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "NO_AT_BRIDGE": "1"}
    known |= {"GSK_RENDERER": "cairo", "GDK_BACKEND": "x11", "QT_QPA_PLATFORM": "xcb"}
    outside = {name: value for name, value in os.environ.items() if name != "DBUS_SESSION_BUS_ADDRESS"}
    nothing = subprocess.DEVNULL
    screen = ["Xvfb", number, "-screen", "0", "800x500x24", "-nolisten", "tcp"]
    with subprocess.Popen(screen, stderr=nothing) as display:
        shown = Shown(number, home)
        until(lambda: shown.picture() != b"")
        empty = shown.picture()
        session = ["dbus-run-session", "--", program, str(folder)]
        environment = outside | known
        with subprocess.Popen(session, env=environment, stdout=nothing, stderr=nothing) as started:
            try:
                shown.rests(unlike=empty)
                yield shown
            finally:
                display.terminate()  # nothing of the session outlives its screen
                started.terminate()


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_open_window_follows(stopped: MountedDrive, api: Api, program: str, tmp_path: Path) -> None:
    if missing := [tool for tool in (program, *TOOLS) if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    folder = api.folder("box")
    renamed, deleted = api.file("old name", b"x", folder), api.file("deleted", b"x", folder)
    until(lambda: (stopped.top / "box" / "old name").exists() and (stopped.top / "box" / "deleted").exists())
    screen = f":{70 + PROGRAMS.index(program)}"
    with showing(program, stopped.top / "box", screen, tmp_path / "home") as shown:
        before = shown.rests(unlike=b"")
        api.update("file", renamed, name="new name")
        api.delete("file", deleted)
        api.folder("folder", folder)
        assert shown.rests(unlike=before) != before
