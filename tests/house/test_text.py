"""Rules of the house that are plain text: sizes, heads, words, reasons."""

import ast
import collections
import functools
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for package in ("cmsfs", "daemon") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [ROOT / "packaging" / name for name in ("setup", "run", "test", "wheel", "stage", "deb", "rpm")] + [
    ROOT / ".ci" / "run"
]

MAX_LINES = 400
MAX_MODULES = 18
# Drawers that collect what nobody wanted to name.
DRAWERS = {"utils.py", "util.py", "helpers.py", "common.py", "types.py", "misc.py"}
# What has a docstring, besides a module.
DOCUMENTED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Put together here so that this file does not hold them.
UNFINISHED = re.compile(
    "|".join(["TO" + "DO", "FIX" + "ME", r"\b" + "X" * 3 + r"\b", "NotImplemented" + "Error"])
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class _Syntax(NamedTuple):
    classes: list[str]  # that others may import
    stray: list[int]  # lines of strings that stand alone


@functools.cache
def _syntax(path: Path) -> _Syntax:
    tree = ast.parse(_text(path))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return _Syntax([name for name in classes if not name.startswith("_")], list(_stray_strings(tree)))


def test_a_module_opens_with_a_docstring():
    assert [_name(path) for path in SOURCES if not _text(path).startswith(('"""', 'r"""'))] == []


def test_a_file_is_not_too_long():
    lengths = {_name(path): len(_text(path).splitlines()) for path in SOURCES + TESTS}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_a_folder_has_few_modules():
    modules = [path for path in SOURCES if path.name != "__init__.py"]
    folders = collections.Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    assert {folder: count for folder, count in folders.items() if count > MAX_MODULES} == {}


def test_class_names_are_unique():
    names = collections.Counter(name for path in SOURCES for name in _syntax(path).classes)
    assert [name for name, count in names.items() if count > 1] == []


def test_there_are_no_drawers():
    assert [_name(path) for path in SOURCES if path.name in DRAWERS] == []


def test_package_init_has_only_a_docstring():
    # The settings are one subject to whoever asks for them.
    packages = [path for path in SOURCES if path.name == "__init__.py" and path.parent.name != "config"]
    code = {_name(path): re.sub(r'""".*?"""', "", _text(path), flags=re.S) for path in packages}
    assert [name for name, text in code.items() if "import" in text] == []


def test_docstrings_are_not_data():
    """What a log, a page or a description says is an argument: nobody changes it by editing a comment."""
    assert [_name(path) for path in SOURCES if "__doc__" in _text(path)] == []


def test_a_string_that_stands_alone_is_a_docstring():
    """Elsewhere it does nothing: a comment that is not one, or an argument that lost its call."""
    found = {_name(path): _syntax(path).stray for path in SOURCES + TESTS}
    assert {name: lines for name, lines in found.items() if lines} == {}


def _stray_strings(owner: ast.AST, *, has_docstring: bool = True) -> Iterator[int]:
    """The lines of statements that are a string, or a tuple of strings, and no docstring."""
    # Statements are in no expression: those, which are most of a tree, need no look.
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for at, node in enumerate(getattr(owner, name, ())):
            if isinstance(node, ast.Expr):
                if _is_text(node.value) and not (has_docstring and at == 0):
                    yield node.lineno
            else:
                yield from _stray_strings(node, has_docstring=isinstance(node, DOCUMENTED))


def _is_text(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=str() | bytes()) | ast.JoinedStr():
            return True
        case ast.Tuple(elts=parts):
            return bool(parts) and all(map(_is_text, parts))
    return False


def test_docstrings_name_what_exists():
    """A dotted name in backticks (`module.function`, `Class.method`) is made of words of the code."""
    others = {"upgrade_N.sql", "trio.Cancelled"}
    docstrings, code = [], []
    for path in SOURCES + TESTS:
        parts = re.split(r'"""(.*?)"""', _text(path), flags=re.S)
        code += [str(path), *parts[::2]]
        docstrings += [(_name(path), text) for text in parts[1::2]] if path in SOURCES else []
    words = set(re.findall(r"\w+", "\n".join(code)))
    assert [
        (name, reference)
        for name, text in docstrings
        for reference in re.findall(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w+)+)`", text)
        if not words.issuperset(reference.split(".")) and reference not in others
    ] == []


def test_nothing_is_left_unfinished():
    files = [*SOURCES, *TESTS, *SCRIPTS, *ROOT.glob("*.md"), *(ROOT / "cmsfs").rglob("*.md")]
    found = {_name(p): UNFINISHED.findall(_text(p)) for p in files}
    assert {name: words for name, words in found.items() if words} == {}


def test_only_config_reads_the_environment():
    allowed = {
        "cmsfs/config/loading.py",
        "cmsfs/config/paths.py",
        "cmsfs/process_env.py",
        "cmsfs/logs.py",  # JOURNAL_STREAM says how a line looks
        "cmsfs/cli/main.py",  # CMSFS_DEBUG, when the configuration itself may be what fails
        "cmsfs/mounts.py",  # hands its own on to a helper
        "cmsfs/service/worker/worker_client.py",  # hands the little that the worker needs on to it
        "cmsfs/sd_notify.py",  # NOTIFY_SOCKET is systemd's
        "daemon/survival/holder.py",  # hands its own on to the daemon
    }
    readers = {_name(p) for p in SOURCES if re.search(r"os\.(environ|getenv)", _text(p))}
    assert readers - allowed == set()


def test_each_dependency_gives_its_reason():
    text = _text(ROOT / "pyproject.toml")
    project = tomllib.loads(text)["project"]
    # Checkers of the house need none: what pytest, ruff and mypy are for is known.
    known = {"pytest", "ruff", "mypy"}
    unexplained = []
    for requirement in project["dependencies"] + project["optional-dependencies"]["dev"]:
        name = re.split(r"[<>=~!\[ ]", requirement)[0]
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        if name not in known and not re.search(r"#\s+\S+", line):
            unexplained.append(requirement)
    assert unexplained == []


def test_a_script_is_executable_and_parses():
    assert [_name(script) for script in SCRIPTS if not script.stat().st_mode & 0o111] == []
    for script in SCRIPTS:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert done.stderr == "", script
