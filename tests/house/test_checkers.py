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


# A cold mypy takes its time on a small machine, and the tests are as long as what they test: it looks at the
# product and at what tests share, and with --long at every test.
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "of",
    [["cmsfs", "daemon", "tests/support"], pytest.param([], marks=pytest.mark.long)],
    ids=["the product", "everything"],
)
def test_mypy_strict_finds_nothing(of):
    done = _run("mypy", *of)
    assert done.returncode == 0, done.stdout + done.stderr
