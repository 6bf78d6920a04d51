"""Files that the worker derived from contents (text, thumbnails), by the SHA-1 of their source.

`renditions/ab/<sha1>.<name>` is what was made, a row says whether it is there, asked for, or not to be had.
It is made once for each content, however many files and versions have that, and can be made again at any
time; so it is gone with its blob (see store.py), and a file that is missing is asked for again.

Rule: the file is on disk before the row says so.
"""

import contextlib
import enum
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from cmsfs import durability

Read = Callable[..., list[Row]]  # as in store.py, which needs this module

TEXT = "extracted_text"

# The pictures that may be made, by name: format, and how wide and high at most.  The sizes are the public
# API's, those of its representations and those of `/files/:id/thumbnail`.
PICTURES = {
    f"{extension}_{thumb}{size}x{size}": (extension, size)
    for extension, thumb, sizes in (
        ("jpg", "thumb_", (32, 94, 160, 320)),
        ("jpg", "", (1024, 2048)),
        ("png", "thumb_", (32, 64, 128, 256)),
        ("png", "", (1024, 2048)),
    )
    for size in sizes
}


class DerivedState(enum.IntEnum):
    """Whether a derived file is there; IMPOSSIBLE: the worker cannot make it from this content."""

    ASKED = 0
    MADE = 1
    IMPOSSIBLE = 2


def states(read: Read, sha1s: Iterable[str]) -> dict[tuple[str, str], DerivedState]:
    """What there is of these contents, by SHA-1 and name."""
    found = read(
        "SELECT sha1, name, state FROM rendition WHERE sha1 IN (SELECT value FROM json_each(?))",
        json.dumps(list(sha1s)),
    )
    return {(row["sha1"], row["name"]): DerivedState(row["state"]) for row in found}


def ask(conn: Connection, wanted: Iterable[tuple[str, str]], *, now: int) -> None:
    """Have these made, each a SHA-1 and a name, unless they are there or known to be impossible."""
    conn.executemany(
        "INSERT INTO rendition (sha1, name, asked_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(sha1, name, now) for sha1, name in wanted],
    )


def record(conn: Connection, sha1: str, name: str, state: DerivedState, *, now: int) -> None:
    conn.execute(
        "INSERT INTO rendition (sha1, name, state, asked_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (sha1, name) DO UPDATE SET state = excluded.state",
        (sha1, name, state, now),
    )


def forget(conn: Connection) -> None:
    """No word of contents that no version has."""
    conn.execute("DELETE FROM rendition WHERE sha1 NOT IN (SELECT sha1 FROM version)")


def job(name: str, source: Path, target: Path) -> dict[str, Any]:
    """What the worker is told to do."""
    where = {"source": str(source), "target": str(target)}
    if name == TEXT:
        return where | {"what": "text"}
    extension, size = PICTURES[name]
    return where | {"what": "picture", "extension": extension, "width": size, "height": size}


class DerivedFiles:
    """The directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha1: str, name: str) -> Path:
        return self.root / sha1[:2] / f"{sha1}.{name}"

    def prepare(self, sha1: str) -> Path:
        """Where the worker writes; `keep` puts it in its place."""
        (self.root / sha1[:2]).mkdir(exist_ok=True, mode=0o700)
        return self.root / sha1[:2] / f"{sha1}.new"

    def keep(self, sha1: str, name: str) -> None:
        """What the worker wrote, and synced, is this rendition."""
        self.prepare(sha1).rename(self.path(sha1, name))
        durability.sync(self.path(sha1, name).parent)

    def discard(self, sha1: str) -> None:
        """Remove what the worker left half written."""
        with contextlib.suppress(FileNotFoundError):
            self.prepare(sha1).unlink()

    def drop(self, conn: Connection, sha1: str) -> None:
        """Remove what was made of a content; it can be made again."""
        for (name,) in conn.execute(
            "DELETE FROM rendition WHERE sha1 = ? RETURNING name", (sha1,)
        ).fetchall():
            self.path(sha1, name).unlink(missing_ok=True)

    def sweep(self, known: Callable[[str], set[str]]) -> int:
        """Remove what was made of contents that no version has; `known` is as of the blobs' sweep.

        Only while no other process has the store open.
        """
        removed = 0
        for folder in os.scandir(self.root):
            sha1s = known(folder.name)
            for entry in os.scandir(folder.path):
                sha1, _, name = entry.name.partition(".")
                if sha1 not in sha1s or name == "new":
                    Path(entry.path).unlink()
                    removed += 1
        return removed
