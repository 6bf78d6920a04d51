"""The SQL statements that stand in the service's source.

One that is put together is known if its pieces are names of its module; what a function puts in is seen only
where it runs.
"""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BEGINS = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s+[^/\s]")


@dataclass(frozen=True, slots=True)
class Statement:
    """One of them, and where it stands; `sql` is None if its pieces are not known."""

    module: str
    line: int
    sql: str | None


def statements(root: Path, package: str) -> Iterator[Statement]:
    for path in sorted((root / package).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = [node for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr)]
        pieces = {id(one) for node in whole if isinstance(node, ast.JoinedStr) for one in node.values}
        found = [node for node in whole if id(node) not in pieces and _begins(node)]
        names = _names(path.relative_to(root)) if found else {}
        for node in found:
            yield Statement(str(path.relative_to(root)), node.lineno, _text(node, names))


def _begins(node: ast.Constant | ast.JoinedStr) -> bool:
    """Whether it is a statement; a piece at the beginning may be one of its module."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    if isinstance(first, ast.FormattedValue):
        return isinstance(first.value, ast.Name) and first.value.id.strip("_").isupper()
    return (
        isinstance(first, ast.Constant) and isinstance(first.value, str) and bool(_BEGINS.match(first.value))
    )


def _names(path: Path) -> dict[str, object]:
    return vars(importlib.import_module(".".join(path.with_suffix("").parts)))


def _text(node: ast.Constant | ast.JoinedStr, names: dict[str, object]) -> str | None:
    if isinstance(node, ast.Constant):
        text = str(node.value)
    else:
        try:
            text = eval(compile(ast.Expression(node), node.__class__.__name__, "eval"), dict(names), {})
        except (NameError, AttributeError, KeyError):
            return None
        if not _BEGINS.match(text):
            return None
    # What is formatted later is in braces.
    return None if re.search(r"\{\w*\}", text) else text
