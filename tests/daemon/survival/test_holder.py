"""The process that keeps what a daemon leaves, and starts the next one."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.survival import holder
from tests.support.patience import until

# What a daemon does here, line by line; `kept` is what it was given, by name, `number` how many came before.
PREAMBLE = """
import os, signal, sys, time
from pathlib import Path
from cmsfs import sd_notify
kept = sd_notify.stored_fds()
log = Path(sys.argv[1])
number = log.read_text().count("start") if log.exists() else 0
def say(text):
    with log.open("a") as file:
        file.write(text + "\\n")
say(f"start {os.getpid()} {sorted(kept)}")
"""


class Held:
    """A holder with a daemon of this script."""

    def __init__(self, folder: Path, script: str, *, seconds: float | None = None) -> None:
        (folder / "program.py").write_text(PREAMBLE + script)
        self.log = folder / "log"
        source = f"""
import sys
sys.path.insert(0, {str(Path(holder.__file__).parent)!r})
import holder
holder.READY_SECONDS = {seconds or holder.READY_SECONDS}
holder.main()
"""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-c", source, str(folder / "s")),
                *(sys.executable, str(folder / "program.py"), str(self.log)),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pipe = folder / "s"

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def ended(self) -> tuple[int, str]:
        _, told = self.process.communicate(timeout=60)
        return self.process.returncode, told


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # The address of a socket is short.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    yield Path()


KEEP = """
read, write = os.pipe()
memory = os.memfd_create("record")
if not kept:
    sd_notify.store_fd("connection", read)
    sd_notify.store_fd("record", memory)
    os.write(memory, b"what was")
"""
# The connection lives as long as the other end does.
LIVES = (
    KEEP
    + """
if not kept:
    sd_notify.store_fd("ground", write)
"""
)


def test_the_next_daemon_is_given_what_the_last_one_left(folder: Path) -> None:
    held = Held(
        folder,
        LIVES
        + """
sd_notify.notify(READY=1)
if number < 2:
    os.kill(os.getpid(), signal.SIGKILL)
say(os.pread(kept["record"], 100, 0).decode())
say(str([os.get_inheritable(fd) for fd in kept.values()]))
sd_notify.remove_fd("connection")
sys.exit(7)
""",
    )
    code, told = held.ended()
    assert "LISTEN_FDS" not in os.environ
    lines = held.lines()
    assert [line.split(" ", 2)[2] for line in lines[:3]] == [
        "[]",
        *2 * ["['connection', 'ground', 'record']"],
    ]
    assert len({line.split()[1] for line in lines[:3]}) == 3
    assert lines[3:] == ["what was", "[False, False, False]"]
    assert told.count("the daemon has died") == 2
    assert code == 7
    assert not held.pipe.exists()


def test_a_daemon_that_left_nothing_ends_it_with_its_own_exit_code(folder: Path) -> None:
    assert Held(folder, "sys.exit(3)").ended() == (3, "")


@pytest.mark.parametrize("goodbye", ["sd_notify.remove_fd('connection')", "sd_notify.notify(STOPPING=1)"])
def test_a_daemon_that_ends_in_order_is_not_started_again(folder: Path, goodbye: str) -> None:
    held = Held(
        folder, f"{LIVES}\nsd_notify.notify(READY=1)\n{goodbye}\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert held.ended() == (128 + signal.SIGKILL, "")
    assert len(held.lines()) == 1


def test_an_unmounted_drive_is_not_taken_over(folder: Path) -> None:
    held = Held(
        folder,
        f"""{KEEP}
sd_notify.notify(READY=1)
os.close(write)
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    assert held.ended()[0] == 128 + signal.SIGKILL
    assert len(held.lines()) == 1


def test_a_daemon_that_dies_again_and_again_is_given_up(folder: Path) -> None:
    held = Held(folder, LIVES + "\nos.kill(os.getpid(), signal.SIGKILL)")
    code, told = held.ended()
    assert code == 128 + signal.SIGKILL
    assert "the drive is given up" in told
    assert len(held.lines()) == holder.STARTS


def test_a_daemon_that_does_not_get_ready_is_ended(folder: Path) -> None:
    held = Held(folder, LIVES + "\ntime.sleep(1000)", seconds=1.0)
    assert held.ended() == (
        128 + signal.SIGKILL,
        "cmsfs-holder: the daemon does not get ready; it is ended\n",
    )


def test_signals_reach_the_daemon(folder: Path) -> None:
    held = Held(
        folder,
        """
signal.signal(signal.SIGTERM, lambda number, frame: (say("told"), sys.exit(5)))
sd_notify.notify(READY=1)
say("waits")
time.sleep(1000)
""",
    )
    until(lambda: "waits" in held.lines())
    held.process.send_signal(signal.SIGTERM)
    assert held.ended() == (5, "")
    assert held.lines()[-1] == "told"


def has_ended(pid: int) -> bool:
    """Whether there is no such process any more, or only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("is_late", [False, True], ids=["", "its last message"])
def test_the_process_that_an_upgrade_names_is_followed(folder: Path, is_late: bool) -> None:
    """Also if the holder is told when the first process has ended already."""
    held = Held(
        folder,
        LIVES
        + f"is_late = {is_late}"
        + """
import pathlib, subprocess
sd_notify.notify(READY=1)
if number == 0:
    if is_late:
        state = pathlib.Path(f"/proc/{os.getppid()}/stat")
        while state.read_text().rpartition(")")[2].split()[0] != "S":
            pass  # until it waits for the next message
        os.kill(os.getppid(), signal.SIGSTOP)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    sd_notify.notify(MAINPID=other.pid)
    say(f"other {other.pid}")
    sys.exit(0)
sd_notify.remove_fd("connection")
""",
    )
    until(lambda: any(line.startswith("other") for line in held.lines()))
    pid = int(held.lines()[-1].split()[1])
    handle = os.pidfd_open(pid)
    first = int(held.lines()[0].split()[1])
    until(lambda: has_ended(first))
    held.process.send_signal(signal.SIGCONT)
    assert select.select([held.process.stderr], [], [], 0.5)[0] == []
    assert len(held.lines()) == 2  # the first has ended meanwhile
    signal.pidfd_send_signal(handle, signal.SIGKILL)
    os.close(handle)
    assert held.ended() == (0, "cmsfs-holder: the daemon has died; another takes the drive over\n")
    assert len(held.lines()) == 3
