"""Files that the worker derived from contents (text, thumbnails), by the SHA-1 of their source.

They are kept in a folder (`renditions/ab/<sha1>.<name>`) or in a bucket (`s3/s3_derived_files.py`); a row
says whether one is there, asked for, or not to be had.  It is made once for each content, however many files
and versions have that, and can be made again at any time; so it goes with its blob, and one that is missing
is asked for again.

Rule: it is where it stays, durably, before the row says so.
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


# What the worker is writing.
_NEW = "new"


@dataclass(frozen=True, slots=True)
class StoredRendition:
    """What a listing says of one: of which content it was made, its name, and when, in microseconds."""

    sha1: str
    name: str
    modified: int


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


def drop_rows(conn: Connection, sha1: str) -> list[Row]:
    """Forget what was made of a content; the names."""
    return conn.execute("DELETE FROM rendition WHERE sha1 = ? RETURNING name", (sha1,)).fetchall()


def job(name: str, source: Path, target: Path) -> dict[str, Any]:
    """What the worker is told to do."""
    where = {"source": str(source), "target": str(target)}
    if name == TEXT:
        return where | {"what": "text"}
    extension, size = PICTURES[name]
    return where | {"what": "picture", "extension": extension, "width": size, "height": size}


class DerivedFiles(abc.ABC):
    """Where they are; `root` is the folder that the worker writes in."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @abc.abstractmethod
    def prepare(self, sha1: str) -> Path:
        """Where the worker writes; `keep` puts it in its place."""

    @abc.abstractmethod
    def keep(self, sha1: str, name: str) -> None:
        """What the worker wrote, and synced, is this rendition; for a thread."""

    @abc.abstractmethod
    def read(self, sha1: str, name: str) -> bytes:
        """A rendition; for a thread.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def drop(self, conn: Connection, sha1: str) -> None:
        """Remove what was made of a content that is set aside; it can be made again."""

    @abc.abstractmethod
    def stored(self, prefix: str) -> Iterator[StoredRendition]:
        """What was made of the contents whose SHA-1 begins with two digits; for a thread."""

    @abc.abstractmethod
    def remove(self, found: list[StoredRendition]) -> None:
        """Remove what nobody asks for any more; for a thread."""

    @abc.abstractmethod
    def sweep(self, known: Callable[[str], set[str]], *, alone: bool) -> int:
        """At a start: remove from this machine what a crash left; `known` is as of the blobs' sweep."""

    def discard(self, sha1: str) -> None:
        """Remove what the worker left half written."""
        with contextlib.suppress(FileNotFoundError):
            self.prepare(sha1).unlink()


class FolderDerivedFiles(DerivedFiles):
    """The files of a folder: `ab/<sha1>.<name>`."""

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
        for (name,) in drop_rows(conn, sha1):
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

    def sweep(self, known: Callable[[str], set[str]], *, alone: bool) -> int:
        removed = 0
        for folder in os.scandir(self.root) if alone else ():
            sha1s = known(folder.name)
            for entry in os.scandir(folder.path):
                sha1, _, name = entry.name.partition(".")
                if sha1 not in sha1s or name == _NEW:
                    Path(entry.path).unlink()
                    removed += 1
        return removed
