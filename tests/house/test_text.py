"""Rules of the house that are plain text: sizes, heads, words, reasons."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for package in ("cmsfs", "daemon") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [ROOT / "packaging" / name for name in ("setup", "run", "test", "wheel", "deb")] + [
    ROOT / ".ci" / "run"
]

MAX_LINES = 400
# Drawers that collect what nobody wanted to name.
DRAWERS = {"utils.py", "util.py", "helpers.py", "common.py", "types.py", "misc.py"}
# Put together here so that this file does not hold them.
UNFINISHED = re.compile(
    "|".join(["TO" + "DO", "FIX" + "ME", r"\b" + "X" * 3 + r"\b", "NotImplemented" + "Error"])
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_opens_with_a_docstring(path: Path):
    assert path.read_text(encoding="utf-8").startswith(('"""', 'r"""'))


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=_name)
def test_a_file_is_not_too_long(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_there_are_no_drawers():
    assert [_name(path) for path in SOURCES if path.name in DRAWERS] == []


def test_a_package_file_holds_a_docstring_and_nothing_to_import():
    for path in SOURCES:
        # The settings are one subject to whoever asks for them.
        if path.name == "__init__.py" and path.parent.name != "config":
            assert "import" not in re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.S), (
                path
            )


def test_docstrings_are_not_data():
    """What a log, a page or a description says is an argument: nobody changes it by editing a comment."""
    assert [_name(path) for path in SOURCES if "__doc__" in path.read_text(encoding="utf-8")] == []


def test_nothing_is_left_unfinished():
    files = [*SOURCES, *TESTS, *SCRIPTS, *ROOT.glob("*.md"), *(ROOT / "cmsfs").rglob("*.md")]
    found = {_name(p): UNFINISHED.findall(p.read_text(encoding="utf-8")) for p in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_only_the_configuration_and_the_entry_points_read_the_environment():
    allowed = {
        "cmsfs/config/loading.py",
        "cmsfs/config/paths.py",
        "cmsfs/environment.py",
        "cmsfs/logs.py",  # JOURNAL_STREAM says how a line looks
        "cmsfs/cli/main.py",  # CMSFS_DEBUG, when the configuration itself may be what fails
        "cmsfs/mounts.py",  # hands its own on to a helper
        "cmsfs/service/workshop.py",  # hands the little that the worker needs on to it
        "cmsfs/notify.py",  # NOTIFY_SOCKET is systemd's
    }
    readers = {_name(p) for p in SOURCES if re.search(r"os\.(environ|getenv)", p.read_text(encoding="utf-8"))}
    assert readers - allowed == set()


def test_each_dependency_gives_its_reason():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    # Checkers of the house need none: what pytest, ruff and mypy are for is known.
    known = {"pytest", "ruff", "mypy"}
    for requirement in project["dependencies"] + project["optional-dependencies"]["dev"]:
        name = re.split(r"[<>=~!\[ ]", requirement)[0]
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert name in known or re.search(r"#\s+\S+", line), requirement


@pytest.mark.parametrize("script", SCRIPTS, ids=_name)
def test_a_script_is_executable_and_parses(script: Path):
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
