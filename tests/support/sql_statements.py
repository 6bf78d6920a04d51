"""Finds the SQL statements in the service's source.

An f-string is resolved if its pieces are names of its module; pieces computed in functions are only known at
run time.
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
    """A statement and its location; `sql` is None if its pieces cannot be resolved."""

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
    """Return whether it starts like a statement, or with a constant of its module."""
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
    # Braces are placeholders that are formatted later.
    return None if re.search(r"\{\w*\}", text) else text
