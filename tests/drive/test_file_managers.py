"""What programs that watch folders of a drive hear of changes made elsewhere, in much and in all programs."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.file_manager import colour
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


PACKAGING = Path(__file__).parents[2] / "packaging"
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

    def has(self, wanted: tuple[int, int, int]) -> bool:
        """Whether anything on the screen has this colour."""
        pixels = self.picture()
        return bytes(wanted) in {pixels[at : at + 3] for at in range(0, len(pixels), 3)}

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
def showing(program: str, folder: Path, number: str, home: Path, **more: str) -> Iterator[Shown]:
    """A file manager's window of a folder, on a screen of its own; `more` is put into its environment."""
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
        environment = outside | known | more
        with subprocess.Popen(session, env=environment, stdout=nothing, stderr=nothing) as started:
            try:
                shown.rests(unlike=empty)
                yield shown
            finally:
                # The program goes with its screen, and the session ends its bus, and with it all others.
                display.terminate()
                try:
                    started.wait(30)
                except subprocess.TimeoutExpired:
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


# The typelib of each one's bindings for extensions.
BINDINGS = {
    "nautilus": ("Nautilus", "4.0"),
    "nemo": ("Nemo", "3.0"),
    "caja": ("Caja", "2.0"),
    "thunar": ("Thunarx", "3.0"),
}


def skip_without_bindings(program: str) -> None:
    """Ends the test where extensions of this file manager cannot run."""
    name, version = BINDINGS[program]
    look = f"import gi; gi.require_version({name!r}, {version!r})"
    if subprocess.run(["/usr/bin/python3", "-c", look], stderr=subprocess.DEVNULL).returncode:
        pytest.skip(f"the bindings of {name} are not installed")


@pytest.mark.long
@pytest.mark.parametrize("program", ("nautilus", "nemo", "caja"))
def test_files_have_emblems(stopped: MountedDrive, api: Api, program: str, tmp_path: Path) -> None:
    if missing := [tool for tool in (program, *TOOLS) if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    skip_without_bindings(program)
    share = tmp_path / "share"
    subprocess.run([sys.executable, PACKAGING / "share", share], check=True)
    folder = api.folder("box")
    api.file("figures.csv", b"1,2\n" * 1000, folder)
    until(lambda: (stopped.top / "box" / "figures.csv").exists())
    more = {"XDG_DATA_HOME": str(share), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    more["XDG_RUNTIME_DIR"] = os.environ["XDG_RUNTIME_DIR"]
    screen = f":{80 + list(BINDINGS).index(program)}"
    with showing(program, stopped.top / "box", screen, tmp_path / "home", **more) as shown:
        # Some look into the file to know what it is, and then it is here.
        until(lambda: shown.has(colour("online")) or shown.has(colour("synced")))
        assert not shown.has(colour("pinned"))
        stopped.cmsfs("pin", str(stopped.top / "box" / "figures.csv"))
        until(lambda: shown.has(colour("pinned")))


# Where the only item of a folder is, and the keys from its menu's end to "Make Available Offline".
KEYS = {
    "dolphin": (("325", "187"), ("Up", "Up", "Right", "Down", "Down", "Down")),
    "pcmanfm": (("205", "95"), ("Up", "Up", "Right")),
    "nautilus": (("300", "110"), ("Up",) * 4),
    "nemo": (("243", "145"), ("Up",) * 4),
    "caja": (("249", "155"), ("Up",) * 4),
    "thunar": (("218", "138"), ("Up",) * 4),
}


@pytest.mark.long
@pytest.mark.parametrize("program", KEYS)
def test_menu_makes_a_file_available_offline(
    stopped: MountedDrive, api: Api, program: str, tmp_path: Path
) -> None:
    if missing := [tool for tool in (program, "xdotool", *TOOLS) if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    if program == "pcmanfm" and not list(Path("/usr/lib").glob("*/libfm/modules/gtk-menu-actions.so")):
        pytest.skip("missing: libfm-modules")
    if program in BINDINGS:
        skip_without_bindings(program)
    share, programs = tmp_path / "share", tmp_path / "bin"
    subprocess.run([sys.executable, PACKAGING / "share", share], check=True)
    programs.mkdir()
    command = programs / "cmsfs"
    home = os.environ["HOME"]
    command.write_text(f'#!/bin/sh\nHOME={home} exec {sys.executable} -m cmsfs "$@"\n')
    command.chmod(0o755)
    api.file("figures.csv", b"1,2\n" * 1000, api.folder("box"))
    until(lambda: (stopped.top / "box" / "figures.csv").exists())
    more = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
    # Without this Python's folder: the programs' own would take it for theirs.
    more |= {"XDG_DATA_HOME": str(share), "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}
    place, keys = KEYS[program]
    screen = f":{90 + list(KEYS).index(program)}"
    environment = {**os.environ, "DISPLAY": screen}

    def choose(*words: str) -> None:
        subprocess.run(["xdotool", *words], env=environment, check=True)

    with showing(program, stopped.top / "box", screen, tmp_path / "home", **more) as shown:

        def is_pinned() -> bool:
            # A window that is not ready hears no keys.
            choose("key", "--delay", "150", "Escape", "Escape")
            choose("mousemove", *place, "click", "3", "sleep", "1", "key", "--delay", "400", *keys)
            shown.picture("menu")
            choose("key", "Return")
            shown.picture("chosen")
            return "/box/figures.csv" in stopped.cmsfs("pins").stdout

        until(is_pinned)


UDISKS = Path("/usr/libexec/udisks2/udisksd")


@pytest.mark.long
def test_volume_monitor_names_the_drive(drive: MountedDrive, tmp_path: Path) -> None:
    tools = ("dbus-daemon", "dbus-run-session", "gio")
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"missing: {', '.join(missing)}")
    if not UDISKS.exists() or not list(Path("/usr/libexec").glob("gvfs-udisks2-volume-monitor")):
        pytest.skip("missing: udisks2 or gvfs-daemons")
    # The monitor asks the system's bus, which is one of the test's own, and shows what is in the home folder.
    script = """
        dbus-daemon --session --address="$DBUS_SYSTEM_BUS_ADDRESS" --nofork & bus=$!
        trap 'kill $bus $disks' EXIT
        until [ -S "$SOCKET" ]; do sleep 0.1; done
        "$UDISKS" & disks=$!
        timeout 60 sh -c 'until gdbus call --system -d org.freedesktop.UDisks2 -o / \
            -m org.freedesktop.DBus.Peer.Ping; do sleep 0.1; done' > /dev/null 2>&1
        dbus-run-session -- gio mount -l -i
    """
    socket = tmp_path / "bus"
    known = {"HOME": str(drive.mountpoint.parent), "XDG_RUNTIME_DIR": str(tmp_path), "SOCKET": str(socket)}
    known |= {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}", "UDISKS": str(UDISKS)}
    outside = {name: value for name, value in os.environ.items() if not name.startswith("DBUS_")}
    done = subprocess.run(["bash", "-c", script], env=outside | known, capture_output=True, text=True)
    assert f"Embedded service -> {drive.mountpoint.as_uri()}" in done.stdout, done.stderr
    assert "[folder-remote]" in done.stdout or "[cmsfs]" in done.stdout
