"""What was acknowledged is there after the daemon was killed: at random moments, and between any two steps
of keeping a change; here, and at the service after the drain."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs.crashpoints import Point
from tests.support import crash_rounds
from tests.support.crash_rounds import Disk, Rounds

# Those of keeping tokens are passed by tests/auth/test_token_refresh.py, those of requests by
# test_keep_mounted.py.
POINTS = [point for point in Point if not point.startswith(("tokens", "request"))]

# These need a file that goes in parts.
LARGE = {Point.SESSION_BEGUN, Point.PARTS_SENT}

# These are passed all the time.
OFTEN = {point for point in POINTS if point.startswith(("close", "group", "seal", "op", "upload"))}


@pytest.fixture
def rounds(tmp_path: Path, private_folders: Path, processes: object) -> Iterator[Rounds]:
    made = Rounds(tmp_path, seed=random.randrange(10**9))
    watchdog = threading.Timer(7000, made.free)
    watchdog.daemon = True
    watchdog.start()
    yield made
    watchdog.cancel()
    made.free()


def carry_out(rounds: Rounds, ends: list[Point | None]) -> None:
    """A round for each way to end; None is a random moment."""
    rounds.start()
    for end in ends:
        before = rounds.expected.acknowledged
        if end in LARGE:
            # The large file comes first, and may be on its way at once.
            rounds.plan.write_text(f"{end} 1")
        rounds.write(*(["--large"] if end in LARGE else []))
        if end is None:
            rounds.await_acknowledged(rounds.random.randrange(10, 150))
            rounds.kill()
        else:
            rounds.await_acknowledged(1 if end in LARGE else rounds.random.randrange(5, 25))
            count = rounds.random.randrange(1, 4) if end in OFTEN else 1
            rounds.plan.write_text(f"{end} {count}")
            rounds.wait_killed()
        rounds.collect_logs()
        assert rounds.expected.acknowledged > before, "nothing was acknowledged: the round proves nothing"
        rounds.start()
        found = rounds.check_drive()
        rounds.sync()
        rounds.check_service(found)
    rounds.end()


# ---- power cuts --------------------------------------------------------------------------------


@pytest.fixture
def lie(request: pytest.FixtureRequest) -> str:
    """Which fsync the disk forgets."""
    return str(getattr(request, "param", ""))


@pytest.fixture
def disk(tmp_path: Path, lie: str, rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk(tmp_path, lie=lie)
    for variable, name in (("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache")):
        monkeypatch.setenv(variable, str(made.mountpoint / name))
    yield made
    rounds.free()
    made.free()


def cut_the_power(rounds: Rounds, disk: Disk, count: int) -> None:
    """Programs write, some with fsync; the power goes; what was durable is there."""
    disk.start()
    rounds.start()
    for _ in range(count):
        before = rounds.expected.acknowledged
        began = time.monotonic()
        rounds.write("--fsync", "--bursts")
        rounds.await_acknowledged(rounds.random.randrange(20, 60))
        # Long enough for some of what was only closed to be promised too; a lie is told with each fsync.
        if not disk.lie:
            crash_rounds.wait_until(began + crash_rounds.DURABLE_AFTER + 2 * rounds.random.random())
        cut_at = time.monotonic()
        disk.cut(rounds.random.randrange(10**9))
        rounds.kill()
        disk.remove()
        rounds.collect_logs(cut_at=cut_at)
        assert rounds.expected.acknowledged > before, "nothing was acknowledged: the round proves nothing"
        disk.start()
        rounds.start()
        rounds.poll()
        found = rounds.check_drive()
        rounds.sync()
        rounds.check_service(found)


def test_power_cut_loses_no_durable_byte(rounds: Rounds, disk: Disk) -> None:
    cut_the_power(rounds, disk, 2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_power_cuts_lose_no_durable_byte(rounds: Rounds, disk: Disk) -> None:
    cut_the_power(rounds, disk, 60)


@pytest.mark.parametrize(
    "lie",
    ["drafts", pytest.param("log", marks=pytest.mark.long), pytest.param("names", marks=pytest.mark.long)],
    indirect=True,
)
def test_the_power_cut_finds_a_missing_fsync(rounds: Rounds, disk: Disk) -> None:
    # Nothing is sent before the cut: whatever was promised is here or nowhere.
    rounds.settle_seconds = 3600
    # That bytes are missing, and nothing else; where they lay under a change, it is held.
    with pytest.raises(AssertionError, match=r" is .*, not \{|the service no longer has the rest"):
        cut_the_power(rounds, disk, 10)


# ---- kills -------------------------------------------------------------------------------------


def test_killed_daemon_loses_no_acknowledged_byte(rounds: Rounds) -> None:
    # Always a random moment; the named points take turns over the runs: the simulation passes all of them.
    carry_out(rounds, [None, *rounds.random.sample(POINTS, 4)])


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(4))
def test_no_acknowledged_byte_is_lost_in_many_rounds(rounds: Rounds, part: int) -> None:
    points = list(POINTS)
    carry_out(rounds, [points[(number // 2) % len(points)] if number % 2 else None for number in range(50)])
