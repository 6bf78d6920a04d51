"""ARCHITECTURE.md is true to the code: its sequence tables, its packages, its files."""

import ast
import functools
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "cmsfs" / "ARCHITECTURE.md").read_text(encoding="utf-8")

FLOWS = ("Read", "Save", "Push", "Listing", "Remote change", "Restore", "Start and crash recovery")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Step(NamedTuple):
    """A row of a sequence table: `number`, called by the step `caller`, is `function` in `file`.

    No caller: the kernel, a person or a task begins here.  A caller in parentheses calls it by an event, a
    port or a table, so that its own text does not name the function.
    """

    flow: str
    number: int
    caller: str
    function: str
    file: str


def _sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of a level, by heading."""
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _steps() -> list[Step]:
    found = []
    for flow, text in _sections(TEXT, 3).items():
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 5 and cells[0].isdigit():
                number, caller, function, file, _ = cells
                found.append(Step(flow, int(number), caller, function.strip("`"), file.strip("`")))
    return found


@functools.cache
def _definitions(file: str) -> dict[str, Definition]:
    """Functions, classes and methods (as `Class.method`) of a file."""
    found: dict[str, Definition] = {}
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, Definition):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}": one for one in node.body if isinstance(one, Definition)}
    return found


def _words(node: ast.AST) -> set[str]:
    """The names that a piece of code mentions."""
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute | ast.Name)
    }


def test_every_flow_has_a_sequence_table():
    steps = _steps()
    assert {flow for flow in FLOWS if sum(step.flow == flow for step in steps) < 8} == set()


def test_functions_of_sequence_tables_exist():
    missing = [step for step in _steps() if not (ROOT / step.file).is_file()]
    assert missing == []
    assert [step for step in _steps() if step.function not in _definitions(step.file)] == []


def test_callers_of_sequence_tables_call():
    steps = {(step.flow, step.number): step for step in _steps()}
    wrong = []
    for step in steps.values():
        if not step.caller.isdigit():
            continue
        caller = steps[step.flow, int(step.caller)]
        name = step.function.removesuffix(".__init__").rpartition(".")[2]
        if name not in _words(_definitions(caller.file)[caller.function]):
            wrong.append((step, caller))
    assert wrong == []


def _contracts(kind: str) -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == kind]


def test_layers_are_the_import_contract():
    (contract,) = _contracts("layers")
    (block,) = re.findall(r"```\n(.*?)```", _sections(TEXT, 2)["Layers"], flags=re.S)
    assert [re.split(r"\s{2,}", line)[0] for line in block.splitlines()] == contract["layers"]


def test_package_tables_are_the_import_contracts():
    for contract in _contracts("arrows"):
        folder = ROOT / contract["container"].replace(".", "/")
        packages = {path.parent.name for path in folder.glob("*/__init__.py")}
        allowed = dict(line.split(" -> ") for line in contract["allowed"])
        table = _sections(TEXT, 3)[contract["name"]]
        told = {
            package: packages - {package} - _names(imports) if "all but" in imports else _names(imports)
            for package, imports in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", table, flags=re.M)
        }
        assert told == {one: _names(allowed.get(one, "")) for one in packages}


def _names(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.removeprefix("all but ")))


def test_files_that_the_documents_for_developers_name_exist():
    for name in ("cmsfs/ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        named = set(re.findall(r"`((?:cmsfs|daemon|tests|packaging|systemd)/[\w./*-]+)`", text))
        assert len(named) > 10
        assert {one for one in named if not list(ROOT.glob(one.rstrip("/")))} == set()


def test_names_in_the_index_are_in_its_files():
    missing = []
    for row in re.findall(r"^\| .+$", _sections(TEXT, 2)["Where is ...?"], flags=re.M):
        spans = re.findall(r"`([^`]+)`", row.rpartition(" | ")[2])
        files = [ROOT / span for span in spans if span.endswith(".py") and "/" in span]
        if not files:
            continue
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        names = [span.rpartition(".")[2] for span in spans if re.fullmatch(r"\w+(\.\w+)?", span)]
        names = [name for name in names if name not in ("py", "md")]
        missing += [(row, name) for name in names if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_lines_of_the_architecture_are_short():
    assert [line for line in TEXT.splitlines() if len(line) > 120] == []
