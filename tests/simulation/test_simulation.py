"""Stories of the simulation, in a process with a fixed hash seed, so that a seed is a whole story."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cmsfs.cache import content_files
from tests.simulation import planted, planted_kinds, surroundings

ROOT = Path(__file__).parents[2]


def run(*arguments: object, is_found: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=False,
    )
    assert done.returncode == is_found, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("seed", "stories"),
    [(1, 2), (58230047, 1)],  # the second one: three drives wait for events
)
def test_stories_end_well_and_the_same_twice(seed: int, stories: int) -> None:
    output = run("--seed", seed, "--stories", stories, "--twice", "--jobs", 2, "--table")
    assert f"| stories | {stories} |" in output
    assert "| red stories | 0 |" in output


@pytest.mark.timeout(300)
def test_the_stories_of_a_minute_end_well() -> None:
    output = run("--seed", 1000, "--stories", 10**6, "--seconds", 60, "--table")
    assert re.search(r"^\| stories \| [1-9]", output, re.MULTILINE)
    assert "| red stories | 0 |" in output


@pytest.mark.parametrize("is_warm", [True, False])
def test_reads_from_memory_do_not_depend_on_the_machine(tmp_path: Path, is_warm: bool) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"bytes")
    with path.open("rb") as file, surroundings.page_cache(is_warm=is_warm):
        found = content_files.read_now(file.fileno(), 0, 5)
        assert found == bytearray(b"bytes") if is_warm else found is None
        assert content_files.read(file.fileno(), 0, 5) == b"bytes"


def test_a_client_that_overwrites_what_it_has_not_seen_is_found() -> None:
    assert "unseen: " in run("--seed", 12, "--stories", 20, "--plant", "no_if_match", is_found=True)


def test_a_story_that_does_not_end_prints_where_it_is() -> None:
    """Its processor time counts, so that a story is not red because its process was stopped meanwhile."""
    code = (
        "import sys; from tests.simulation import __main__ as command;"
        " command.PROCESSOR_SECONDS = 0.05; sys.exit(command.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--seed", "1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=False,
    )
    assert done.returncode == -signal.SIGPROF, done.stdout + done.stderr
    assert "simulation.py" in done.stderr


def test_a_folder_that_comes_back_where_it_was_made_anew_is_lived_through() -> None:
    output = run("--seed", 95, "--stories", 100, "--plant", "early_children_collide", is_found=True)
    assert "logged unexpected error" in output


@pytest.mark.parametrize("bug", planted.PLANTED)
def test_a_bug_can_be_planted(bug: str) -> None:
    with planted.planted(bug):
        pass  # all attributes that it replaces exist


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("bug", [one for one in planted.PLANTED if one not in planted_kinds.UNREACHED])
def test_a_planted_bug_is_found(bug: str) -> None:
    assert re.search(
        rf"^\| `{bug}` \| [1-9]", run("--seed", 1, "--stories", 2000, "--plants", bug), re.MULTILINE
    )


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_an_hour_of_stories_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    output = run("--stories", 10**6, "--seconds", 3600, "--jobs", 0, "--table")
    with capsys.disabled():
        sys.stdout.write(output)
