"""A run that is shared out by files runs what a run of each file alone would."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

CONFTEST = """
import pytest

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if "left_out" not in item.name]

pytest_plugins = ["tests.support.scheduling"]

@pytest.fixture(scope="session")
def once():
    with open("made", "a") as file:
        file.write("session ")
    yield
    with open("made", "a") as file:
        file.write("end")
"""

FILES = {
    "test_one.py": """
import pytest

@pytest.fixture(scope="module")
def of_module(once):
    yield
    with open("made", "a") as file:
        file.write("module ")

@pytest.mark.parametrize("number", [1, 2, 3])
def test_number(of_module, number):
    assert number != 2
""",
    "folder/test_two.py": """
class TestTwo:
    def test_it(self, once):
        pass
""",
    "folder/test_without.py": "def test_left_out(once): pass",
    "test_absent.py": "import pytest; pytest.skip('not here', allow_module_level=True)",
    "test_broken.py": "import no_such_module",
    "test_empty.py": "",
}


def test_every_test_of_every_file_runs_once(tmp_path):
    for name, text in {"conftest.py": CONFTEST, "pytest.ini": "[pytest]\ntestpaths = .", **FILES}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    others = [
        word for name in ("hypothesispytest", "trio", "anyio", "timeout") for word in ("-p", f"no:{name}")
    ]
    run = [sys.executable, "-m", "pytest", "-n", "1", "--dist", "loadfile", "-rA", *others]
    ended = subprocess.run(
        run, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    told = {
        line
        for line in ended.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED"))
    }
    assert {line.partition(" - ")[0] for line in told} == {
        "PASSED test_one.py::test_number[1]",
        "FAILED test_one.py::test_number[2]",
        "PASSED test_one.py::test_number[3]",
        "PASSED folder/test_two.py::TestTwo::test_it",
        "SKIPPED [1] test_absent.py:1: not here",
        "ERROR test_broken.py",
    }, ended.stdout
    assert "1 failed, 3 passed, 1 skipped, 1 error" in ended.stdout
    assert (tmp_path / "made").read_text() == "session module end"
    assert ended.returncode == 1
