"""Brings the service's statements into the form in which PostgreSQL takes them.

Statements are written once, in what both engines take.  What is left is how parameters are written, which are
numbered there (`$1`), how something that may be NULL is compared, and what is said to SQLite's planner alone.

Rule: what is between quotes stays as it is.
"""

import re
from functools import lru_cache

# A literal, a quoted name or a comment; a parameter, which has a number, a name or neither; a comparison with
# one; which index to use; which table to begin with.
_TOKEN = re.compile(
    r"""('(?:[^']|'')*'|"[^"]*"|--[^\n]*)"""
    r"""|\?(?P<number>\d*)"""
    r"""|(?<![:\w]):(?P<name>[a-z_]\w*)"""
    r"""|\bIS(?P<other> NOT)?(?= [?:])"""
    r"""|(?P<hint> (?:NOT INDEXED|INDEXED BY \w+))\b"""
    r"""|\b(?P<cross>CROSS )(?=JOIN\s+[\w.]+(?:\([^()]*\))?(?:\s+AS\s+\w+)?\s+ON\b)"""
)


@lru_cache(maxsize=4096)
def translate(sql: str) -> tuple[str, tuple[int | str, ...]]:
    """A statement with numbered parameters, and what each is of the arguments: its place or its name."""
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
            return number(match["name"])
        # As in SQLite: one without a number comes after the largest so far.
        place = int(match["number"]) if match["number"] else positions + 1
        positions = max(positions, place)
        return number(place - 1)

    return _TOKEN.sub(replace, sql), tuple(keys)
