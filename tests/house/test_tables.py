"""Every table of the replica's database is changed by one module, or by one package: its owner."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

OWNERS = {
    "node": "cmsfs.replica",
    "lineage": "cmsfs.replica",
    "op": "cmsfs.replica.rows.op_rows",
    "unheard": "cmsfs.replica.rows.in_flight",
    "xattr": "cmsfs.replica.rows.xattr_rows",
    "listing": "cmsfs.replica.tree",
    "past": "cmsfs.replica.rows.past_versions",
    "deleted": "cmsfs.replica.rows.deleted_items",
    "pin": "cmsfs.replica.pins",
    "fact": "cmsfs.replica.item_details",
    "assignment": "cmsfs.replica.item_details",
    "described": "cmsfs.replica.item_details",
    "wished": "cmsfs.replica.item_details",
    "shortcut": "cmsfs.replica.link_texts",
    "doubt": "cmsfs.replica.merge.local_work",
    "kept": "cmsfs.replica.local_attributes",
    "cursor": "cmsfs.replica.kv_store",
    "content": "cmsfs.cache.content_table",
    "draft": "cmsfs.journal.draft_rows",
    "symlink": "cmsfs.vfs.tree.symlinks",
    "upload": "daemon.push.operations.multipart",
}

# Copies what can be read of a damaged database, whatever table it is in.
ANY_TABLE = "daemon.fsck.salvage"

_VERB = r"(?:INSERT(?:\s+OR\s+\w+)?\s+INTO|REPLACE\s+INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM)"
_WRITE = re.compile(rf"\b{_VERB}\s+[\"`\[]?(\w+|\{{\}})", re.IGNORECASE)
_ANY_VERB = re.compile(r"\b(?:INSERT|REPLACE|UPDATE|DELETE)\b", re.IGNORECASE)
_OPEN_END = re.compile(rf"\b{_VERB}\s*$")
_UNKNOWN = "{}"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module and their lines; for what an f-string puts in, `{}`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else _UNKNOWN for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def writes(source: str, tables: set[str]) -> list[tuple[int, str]]:
    """Where a module changes which table; `{}` for a table whose name is not in the string."""
    if _ANY_VERB.search(source) is None:
        return []
    found = set()
    for line, text in _texts(ast.parse(source)):
        names = {name.lower() for name in _WRITE.findall(text)} & (tables | {_UNKNOWN})
        found |= {(line, name) for name in names}
        if _OPEN_END.search(text):
            found.add((line, _UNKNOWN))
    return sorted(found)


def _tables() -> set[str]:
    return set(
        re.findall(r"^CREATE TABLE (\w+)", (ROOT / "cmsfs/replica/schema.sql").read_text(), re.MULTILINE)
    )


def _modules() -> Iterator[tuple[str, Path]]:
    for package in ("cmsfs", "daemon"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            # The service has tables of its own, some of the same names.
            if not name.startswith("cmsfs.service"):
                yield name, path


def test_every_table_has_an_owner():
    assert set(OWNERS) == _tables()


def test_a_table_is_changed_by_its_owner_alone():
    tables = _tables()
    elsewhere, writers = [], set()
    for module, path in _modules():
        for line, table in writes(path.read_text(), tables):
            owner = OWNERS.get(table, ANY_TABLE)
            if f"{module}.".startswith(f"{owner}."):
                writers.add(table)
            elif (module, table) != (ANY_TABLE, _UNKNOWN):
                elsewhere.append(f"{path.relative_to(ROOT)}:{line} changes {table}, which is {owner}'s")
    assert elsewhere == []
    assert writers - {_UNKNOWN} == tables


def test_writes_are_found_however_they_are_written():
    source = '''
        conn.execute("UPDATE OR IGNORE node SET a = 1")
        conn.execute(
            "INSERT OR REPLACE INTO"
            " node(a) VALUES (1)"
        )
        conn.execute("""
            WITH x AS (SELECT 1)
            DELETE   FROM
              node WHERE a IN x
        """)
        conn.execute(f"replace into node({columns}) VALUES (1)")
        conn.execute(f"UPDATE {table} SET a = 1")
        conn.execute("DELETE FROM " + table)
        conn.execute("SELECT * FROM node ON CONFLICT DO UPDATE SET a = 1")
    '''
    found = writes(f"if True:{source}", {"node"})
    assert [table for _, table in found] == ["node", "node", "node", "node", "{}", "{}"]
