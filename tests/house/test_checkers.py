"""The code passes ruff and mypy --strict."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_ruff_finds_nothing():
    done = _run("ruff", "check", "--no-cache", "cmsfs", "daemon", "tests")
    assert done.returncode == 0, done.stdout


def test_the_code_is_formatted():
    done = _run("ruff", "format", "--no-cache", "--check", "cmsfs", "daemon", "tests")
    assert done.returncode == 0, done.stdout


# A cold mypy over everything takes its time on a small machine.
@pytest.mark.timeout(300)
def test_mypy_strict_finds_nothing():
    done = _run("mypy")
    assert done.returncode == 0, done.stdout + done.stderr
