"""Stories of the simulation, in a process whose sets have one order: a seed is the whole story."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_stories_end_well_and_the_same_twice() -> None:
    assert "4 stories" in run("--seed", 1, "--stories", 4, "--twice")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_an_hour_of_stories_ends_well() -> None:
    run("--stories", 10**6, "--seconds", 3600)
