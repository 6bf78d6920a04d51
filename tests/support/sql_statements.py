"""The SQL statements that stand in the service's source, and what of SQLite's dialect is in each."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pglast import ast as pg
from pglast import parser, visitors

_BEGINS = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s+[^/\s]")
_LITERAL = re.compile(r"('(?:[^']|'')*')")
_PARAMETER = re.compile(r"\?(\d*)|:([a-z_]+)")
_PIECE = re.compile(r"\{\w*\}")
# Words that PostgreSQL keeps for itself, which are names here.
_RESERVED = re.compile(r"\b(user|offset)\b")
_ONLY_SQLITE = (
    ("INSERT OR", re.compile(r"\b(INSERT|UPDATE) OR (IGNORE|REPLACE)\b")),
    ("INDEXED BY", re.compile(r"\b(NOT INDEXED|INDEXED BY)\b")),
    ("CROSS JOIN ON", re.compile(r"\bCROSS JOIN \w+( AS \w+)?\s+ON\b")),
    ("IS ?", re.compile(r"\bIS (NOT )?(\?|:)")),
    ("MATCH", re.compile(r"\bMATCH\b")),
)
# Functions that both engines have, with the same meaning for what is asked of them here.
_FUNCTIONS = frozenset(("coalesce", "count", "max", "min", "nullif", "sum"))
_FUNCTIONS |= frozenset(("length", "lower", "replace", "substr", "trim", "upper"))


@dataclass(frozen=True, slots=True)
class Statement:
    """One of them: where it stands, and whether pieces are put into it."""

    module: str
    line: int
    sql: str
    is_made: bool


def statements(root: Path, package: str) -> Iterator[Statement]:
    for path in sorted((root / package).rglob("*.py")):
        module = str(path.relative_to(root))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        made = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        pieces = {id(one) for node in made for one in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "piece"
                    for one in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
                text = node.value
            else:
                continue
            if _BEGINS.match(text):
                yield Statement(module, node.lineno, text, isinstance(node, ast.JoinedStr))


def dialect(sql: str) -> set[str]:
    """What PostgreSQL does not take, or takes for something else; none: its grammar has the statement."""
    plain = _LITERAL.sub("''", sql)
    found = {word for word, pattern in _ONLY_SQLITE if pattern.search(plain)}
    if _RESERVED.search(plain):
        found.add("reserved word")
    try:
        tree = parser.parse_sql(_numbered(sql))
    except parser.ParseError:
        return found or {"syntax"}
    seen = _Look()
    seen(tree)
    return found | seen.found


def _numbered(sql: str) -> str:
    """With parameters as PostgreSQL writes them."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${match[1] or count}"

    parts = _LITERAL.split(_PIECE.sub("piece", sql))
    return "".join(part if at % 2 else _PARAMETER.sub(number, part) for at, part in enumerate(parts))


class _Look(visitors.Visitor):  # type: ignore[misc,unused-ignore]  # where it is not installed
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_FuncCall(self, _: Any, node: pg.FuncCall) -> None:
        name = node.funcname[-1].sval
        if name not in _FUNCTIONS:
            self.found.add(f"{name}()")

    def visit_A_Expr(self, _: Any, node: pg.A_Expr) -> None:
        operator = node.name[-1].sval
        if operator in ("->", "->>") and isinstance(node.rexpr, pg.A_Const):
            value = node.rexpr.val
            if isinstance(value, pg.String) and value.sval.startswith("$"):
                self.found.add("->> of a path")
