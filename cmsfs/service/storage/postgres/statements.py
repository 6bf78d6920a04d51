"""Translates the service's SQL statements from SQLite's to PostgreSQL's syntax.

Statements are written once, in SQL that both engines accept.  The remaining differences are parameters, which
PostgreSQL numbers (`$1`), NULL-safe comparison, hints for SQLite's query planner, and letters: `lower` of a
parameter must leave those beyond ASCII as they are, as `lower` of a column does.

Rule: quoted text and comments are left unchanged.
"""

import re
from functools import lru_cache

# A literal, quoted name or comment; `lower` before a parameter; a positional parameter; a named parameter; IS
# before a parameter; an index hint; a join order hint.
_TOKEN = re.compile(
    r"""('(?:[^']|'')*'|"[^"]*"|--[^\n]*)"""
    r"""|(?P<lower>\blower\((?=[?:]\w*\)))?(?:\?(?P<number>\d*)|(?<![:\w]):(?P<name>[a-z_]\w*))"""
    r"""|\bIS(?P<other> NOT)?(?= [?:])"""
    r"""|(?P<hint> (?:NOT INDEXED|INDEXED BY \w+))\b"""
    r"""|\b(?P<cross>CROSS )(?=JOIN\s+[\w.]+(?:\([^()]*\))?(?:\s+AS\s+\w+)?\s+ON\b)"""
)


@lru_cache(maxsize=4096)
def translate(sql: str) -> tuple[str, tuple[int | str, ...]]:
    """Translate a statement; returns it with the index or name of the argument of each parameter."""
    keys: list[int | str] = []
    positions = 0

    def number(key: int | str) -> str:
        if key not in keys:
            keys.append(key)
        return f"${keys.index(key) + 1}"

    def replace(match: re.Match[str]) -> str:
        nonlocal positions
        if match[1] is not None:
            return match[1]
        if match["hint"] is not None or match["cross"] is not None:
            return ""
        if match[0].startswith("IS"):
            return "IS DISTINCT FROM" if match["other"] else "IS NOT DISTINCT FROM"
        if match["name"] is not None:
            found = number(match["name"])
        else:
            # As in SQLite, an unnumbered parameter follows the largest number so far.
            place = int(match["number"]) if match["number"] else positions + 1
            positions = max(positions, place)
            found = number(place - 1)
        return found if match["lower"] is None else f'lower({found} COLLATE "C"'

    return _TOKEN.sub(replace, sql), tuple(keys)
