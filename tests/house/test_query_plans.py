"""No statement that runs on the event loop goes through a whole table that grows with the drive.

Every text that is given to `Database.row` or `Database.rows` is looked up in the source, with the values that
its module has for the names in it, and SQLite is asked how it would carry it out.
"""

import ast
import importlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# One row an item, or a content.
LARGE = ("node", "content", "listing")

_LAYERS = ("cmsfs/replica", "cmsfs/cache", "cmsfs/journal", "cmsfs/vfs", "cmsfs/fuse", "daemon")
_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?", re.IGNORECASE)
_WORDS = {
    "where",
    "on",
    "join",
    "left",
    "cross",
    "order",
    "limit",
    "indexed",
    "using",
    "union",
    "group",
    "set",
}
_MOST_PARAMETERS = 32


def _modules() -> Iterator[tuple[str, Path]]:
    for layer in _LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def _value(node: ast.expr, scope: ast.AST, module: Any) -> str | None:
    """What a text amounts to where it is given to a query."""
    names = dict(vars(module))
    for one in ast.walk(scope):
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            names[one.targets[0].id] = _evaluated(one.value, names)
    found = _evaluated(node, names)
    return found if isinstance(found, str) else None


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "", "eval"), dict(names))
    except Exception:
        return None


def _on_the_loop() -> Iterator[tuple[str, str | None]]:
    """Where a query runs on the event loop, and which."""
    for name, path in _modules():
        source = path.read_text()
        if ".row(" not in source and ".rows(" not in source:
            continue
        module = importlib.import_module(name)
        tree = ast.parse(source)
        scopes = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        for scope in scopes:
            for call in ast.walk(scope):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.func.attr in ("row", "rows")
                    and call.args
                ):
                    yield f"{name}:{call.lineno}", _value(call.args[0], scope, module)


def _replica() -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:")
    conn.executescript(resources.files("cmsfs.replica").joinpath("schema.sql").read_text())
    for function in ("is_open", "is_fresh", "note_fresh"):
        conn.create_function(function, -1, lambda *_: 0)
    return conn


def scans(conn: sqlite3.Connection, sql: str) -> list[str]:
    """The steps that go through a large table, or the whole of an index of all its rows."""
    names = {table.lower() for table, _ in _TABLE.findall(sql)} & set(LARGE)
    names |= {
        alias.lower()
        for table, alias in _TABLE.findall(sql)
        if table.lower() in LARGE and alias and alias.lower() not in _WORDS
    }
    partial = {
        row[0]
        for row in conn.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '% WHERE %'"
        )
    } - {"node_children", "node_place", "node_remote", "node_base", "node_content"}
    for count in range(_MOST_PARAMETERS):
        try:
            steps = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * count)]
            break
        except sqlite3.ProgrammingError:
            continue
    else:
        raise AssertionError(f"more than {_MOST_PARAMETERS} parameters: {sql}")
    found = []
    for step in steps:
        words = step.split()
        is_few = any(word in partial for word in words)
        if (words[0] == "SCAN" or _is_all_that_have(step, sql)) and words[1].lower() in names and not is_few:
            found.append(step)
    return found


def _is_all_that_have(step: str, sql: str) -> bool:
    """Whether a search looks for nothing but that a column has a value: nearly all rows of an item have."""
    column = re.search(r"^SEARCH .*\((\w+)>\?\)$", step)
    return column is not None and re.search(rf"\b{column[1]}\s*>", sql) is None


def test_no_query_on_the_event_loop_scans_a_large_table():
    queries = list(_on_the_loop())
    assert len(queries) > 40
    with closing(_replica()) as conn:
        found = {where: scans(conn, sql) for where, sql in queries if sql is not None}
    assert {where: steps for where, steps in found.items() if steps} == {}


def test_the_text_of_every_query_is_found():
    assert [where for where, sql in _on_the_loop() if sql is None] == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM node WHERE size > ?",
        "SELECT p.ino FROM pin AS p JOIN node AS n ON n.ino = p.ino WHERE n.parent IS NOT NULL OR n.ino = 1",
        "SELECT count(*) FROM node",
        "SELECT n.size FROM past AS p JOIN node AS n ON n.sha1 = p.sha1 WHERE n.parent IS NOT NULL",
    ],
)
def test_a_scan_is_noticed(sql):
    with closing(_replica()) as conn:
        assert scans(conn, sql)
