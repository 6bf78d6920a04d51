"""Files that the worker derived from contents (text, thumbnails), by the SHA-1 of their source.

They are kept in a folder (`renditions/ab/<sha1>.<name>`) or in a bucket (`s3/s3_derived_files.py`); a row has
the state: requested, made, or impossible.  A derived file is made once per content, however many files and
versions share it, and can be made again at any time; so it is removed with its blob, and requested again if
it is missing.

Rule: a derived file is stored durably before its row says so.
"""

import abc
import contextlib
import enum
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

from cmsfs import durability

Read = Callable[..., list[Row]]  # as in store.py, which needs this module

TEXT = "extracted_text"

# The available pictures, by name: format, and maximum width and height.  The sizes are those of the public
# API's representations and of `/files/:id/thumbnail`.
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


# The name of the file that the worker is writing.
_NEW = "new"


@dataclass(frozen=True, slots=True)
class StoredRendition:
    """A listing's entry for a derived file: its source's SHA-1, its name, and its mtime in microseconds."""

    sha1: str
    name: str
    modified: int


class DerivedState(enum.IntEnum):
    """The state of a derived file; IMPOSSIBLE: the worker cannot make it from this content."""

    ASKED = 0
    MADE = 1
    IMPOSSIBLE = 2


def states(read: Read, sha1s: Iterable[str]) -> dict[tuple[str, str], DerivedState]:
    """The states of these contents' derived files, by SHA-1 and name."""
    found = read(
        "SELECT sha1, name, state FROM rendition WHERE sha1 IN (SELECT value FROM json_each(?))",
        json.dumps(list(sha1s)),
    )
    return {(row["sha1"], row["name"]): DerivedState(row["state"]) for row in found}


def request(conn: Connection, wanted: Iterable[tuple[str, str]], *, now: int) -> None:
    """Request derived files, each a SHA-1 and a name, unless they have a state already."""
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


def delete_orphan_rows(conn: Connection) -> None:
    """Delete the rows of contents that no version has."""
    conn.execute(
        "DELETE FROM rendition WHERE NOT EXISTS (SELECT 1 FROM version WHERE version.sha1 = rendition.sha1)"
    )


def delete_rows(conn: Connection, sha1: str) -> list[Row]:
    """Delete the rows of a content's derived files; returns their names."""
    return conn.execute("DELETE FROM rendition WHERE sha1 = ? RETURNING name", (sha1,)).fetchall()


def worker_job(name: str, source: Path, target: Path) -> dict[str, Any]:
    """The worker's job description for a derived file."""
    where = {"source": str(source), "target": str(target)}
    if name == TEXT:
        return where | {"what": "text"}
    extension, size = PICTURES[name]
    return where | {"what": "picture", "extension": extension, "width": size, "height": size}


class DerivedFiles(abc.ABC):
    """Storage of derived files; `root` is the folder that the worker writes to."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @abc.abstractmethod
    def prepare(self, sha1: str) -> Path:
        """The path that the worker writes to; `keep` stores the file."""

    @abc.abstractmethod
    def keep(self, sha1: str, name: str) -> None:
        """Store the file that the worker wrote and synced; blocking."""

    @abc.abstractmethod
    def read(self, sha1: str, name: str) -> bytes:
        """The bytes of a derived file; blocking.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def drop(self, conn: Connection, sha1: str) -> None:
        """Remove the derived files of a content that is set aside; they can be made again."""

    @abc.abstractmethod
    def stored(self, prefix: str) -> Iterator[StoredRendition]:
        """List the derived files of the contents whose SHA-1 begins with these two digits; blocking."""

    @abc.abstractmethod
    def remove(self, found: list[StoredRendition]) -> None:
        """Remove derived files; blocking."""

    @abc.abstractmethod
    def sweep(self, referenced: Callable[[str], set[str]], *, exclusive: bool) -> int:
        """At startup, remove local files that a crash left; returns how many.

        `referenced` returns the referenced SHA-1s with a prefix.
        """

    def discard(self, sha1: str) -> None:
        """Remove the worker's incomplete file."""
        with contextlib.suppress(FileNotFoundError):
            self.prepare(sha1).unlink()


class FolderDerivedFiles(DerivedFiles):
    """Derived files in a folder, as `ab/<sha1>.<name>`."""

    def path(self, sha1: str, name: str) -> Path:
        return self.root / sha1[:2] / f"{sha1}.{name}"

    def prepare(self, sha1: str) -> Path:
        (self.root / sha1[:2]).mkdir(exist_ok=True, mode=0o700)
        return self.path(sha1, _NEW)

    def keep(self, sha1: str, name: str) -> None:
        self.prepare(sha1).rename(self.path(sha1, name))
        durability.sync(self.path(sha1, name).parent)

    def read(self, sha1: str, name: str) -> bytes:
        return self.path(sha1, name).read_bytes()

    def drop(self, conn: Connection, sha1: str) -> None:
        for (name,) in delete_rows(conn, sha1):
            self.path(sha1, name).unlink(missing_ok=True)

    def stored(self, prefix: str) -> Iterator[StoredRendition]:
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.root / prefix):
                sha1, _, name = entry.name.partition(".")
                with contextlib.suppress(FileNotFoundError):
                    yield StoredRendition(sha1, name, entry.stat().st_mtime_ns // 1000)

    def remove(self, found: list[StoredRendition]) -> None:
        for one in found:
            self.path(one.sha1, one.name).unlink(missing_ok=True)

    def sweep(self, referenced: Callable[[str], set[str]], *, exclusive: bool) -> int:
        removed = 0
        for folder in os.scandir(self.root) if exclusive else ():
            sha1s = referenced(folder.name)
            for entry in os.scandir(folder.path):
                sha1, _, name = entry.name.partition(".")
                if sha1 not in sha1s or name == _NEW:
                    Path(entry.path).unlink()
                    removed += 1
        return removed
