"""Materialized paths: a row's `path` lists the ids of the folders above it, `/1/20/`.

Rule: a path ends with a slash, so that the id of a folder is never the beginning of another one's.
"""

from functools import lru_cache
from sqlite3 import Row


def below(row: Row) -> tuple[str, str]:
    """The range of paths below a folder: from the first, to before the second."""
    start = f"{row['path']}{row['id']}"
    return f"{start}/", f"{start}0"


# Cached because the items of a page share most of their folders.
@lru_cache(maxsize=4096)
def above(path: str) -> tuple[int, ...]:
    """The ids of the folders in a path, from the root down."""
    return tuple(int(part) for part in path.split("/") if part)


def line(row: Row) -> list[int]:
    """The ids from the root down to the item itself."""
    return [*above(row["path"]), row["id"]]
