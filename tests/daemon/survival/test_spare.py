"""The process that has loaded the program and waits to be the next daemon."""

import os
import signal
from pathlib import Path

from tests.daemon.survival.test_holder import LIVES, Held, folder, has_ended
from tests.support.patience import until

__all__ = ["folder"]

# A daemon with a spare: `given` is what it has when it was the spare of another.
SPARE = """
from daemon.survival import holder, spare
def kill(pid=0):
    os.kill(pid or os.getpid(), signal.SIGKILL)
def entries(pid):
    return sorted(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd"))
"""
FORKS = """
assert spare.is_wanted()
waiting, given = spare.fork()
if given:
    kept = given
    say(f"start {os.getpid()} {sorted(kept)}")
number = log.read_text().count("start")
"""


def words(held: Held, beginning: str) -> list[str]:
    return [line.removeprefix(beginning).strip() for line in held.lines() if line.startswith(beginning)]


def test_spares_take_over_one_after_the_other_with_what_was_left(folder: Path) -> None:
    held = Held(
        folder,
        SPARE
        + FORKS
        + LIVES
        + """
waiting.leave()
sd_notify.notify(READY=1)
say(f"spare {waiting._pid}")
if number < 4:
    kill()
say(os.pread(kept["record"], 100, 0).decode())
say(str([os.get_inheritable(fd) for fd in kept.values()]))
sd_notify.remove_fd("connection")
""",
    )
    code, told = held.ended()
    starts = words(held, "start ")
    assert [line.split(" ", 1)[1] for line in starts] == ["[]", *3 * ["['connection', 'ground', 'record']"]]
    spares = words(held, "spare ")
    assert [line.split()[0] for line in starts[1:]] == spares[:3]
    assert held.lines()[-2:] == ["what was", "[False, False, False]"]
    assert (code, told.count("the daemon has died")) == (0, 3)
    until(lambda: has_ended(int(spares[-1])), 60, "the last one waits on")


def test_without_its_spare_a_daemon_is_started_anew(folder: Path) -> None:
    held = Held(
        folder,
        SPARE
        + FORKS
        + LIVES
        + """
waiting.leave()
sd_notify.notify(READY=1)
if number == 1:
    say(f"spare {waiting._pid}")
    kill(waiting._pid)
    os.waitpid(waiting._pid, 0)
    kill()
sd_notify.remove_fd("connection")
""",
    )
    assert held.ended()[0] == 0
    starts = words(held, "start ")
    assert len(starts) == 2
    assert starts[1].split()[0] not in (starts[0].split()[0], *words(held, "spare "))
    assert starts[1].endswith("['connection', 'ground', 'record']")


def test_a_spare_holds_nothing_open_and_shows_what_it_is(folder: Path) -> None:
    """The connection must end with the daemon; whatever else it has open is not the spare's either."""
    held = Held(
        folder,
        SPARE
        + LIVES
        + FORKS
        + """
own = os.listdir("/proc/self/fd")
while Path(f"/proc/{waiting._pid}/comm").read_text() != "cmsfsd-spare\\n":
    time.sleep(0.01)
say(f"spare {entries(waiting._pid)[-1]} {len(entries(waiting._pid))} of {len(own)}")
sd_notify.remove_fd("connection")
""",
    )
    assert held.ended() == (0, "")
    kind, count, _, of = words(held, "spare ")[0].split()
    # Standard input, output, errors, and its socket.
    assert (kind, int(count)) == ("socket", 4)
    assert int(of) > 6


def test_a_spare_ends_when_another_is_left_or_it_is_not_left_at_all(folder: Path) -> None:
    held = Held(
        folder,
        SPARE
        + FORKS
        + """
if given:
    say("took over")
    kill()
waiting.leave()
later, _ = spare.fork()
later.leave()
say(f"waited {os.waitpid(waiting._pid, 0) == (waiting._pid, 0)}")
never, _ = spare.fork()
never._line.close()
say(f"waited {os.waitpid(never._pid, 0) == (never._pid, 0)}")
sd_notify.notify(SPARE="")
say(f"waited {os.waitpid(later._pid, 0) == (later._pid, 0)}")
""",
    )
    assert held.ended() == (0, "")
    assert words(held, "waited ") == 3 * ["True"]
    assert not words(held, "took over")


def test_a_spare_ends_with_its_holder(folder: Path) -> None:
    held = Held(
        folder,
        SPARE
        + FORKS
        + """
waiting.leave()
sd_notify.notify(READY=1)
say(f"spare {waiting._pid}")
time.sleep(1000)
""",
    )
    until(lambda: bool(words(held, "spare ")))
    pid = int(words(held, "spare ")[0])
    daemon = int(words(held, "start ")[0].split()[0])
    assert not has_ended(pid)
    held.process.send_signal(signal.SIGKILL)
    try:
        until(lambda: has_ended(pid), 60, "the spare waits for nobody")
        assert not has_ended(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)
        held.ended()


def test_a_signal_ends_a_spare_and_nothing_of_the_daemon_runs_in_it(folder: Path) -> None:
    held = Held(
        folder,
        SPARE
        + """
try:
    assert spare.is_wanted()
    waiting, given = spare.fork()
    while Path(f"/proc/{waiting._pid}/comm").read_text() != "cmsfsd-spare\\n":
        time.sleep(0.01)
    os.kill(waiting._pid, signal.SIGINT)
    say(f"code {os.waitstatus_to_exitcode(os.waitpid(waiting._pid, 0)[1])}")
finally:
    say(f"ends {os.getpid()}")
""",
    )
    assert held.ended() == (0, "")
    assert words(held, "code ") == ["1"]
    assert words(held, "ends ") == [words(held, "start ")[0].split()[0]]
