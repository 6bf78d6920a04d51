"""A large store for the service's benchmark, created once by the store's own functions and kept.

The tree resembles that of a grown drive: one folder with a seventh of everything below it, one flat folder,
one deep chain of folders with some thousand files at its end, and projects of a thousand files each.
"""

import itertools
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from sqlite3 import Connection, Row
from typing import TypeVar

from cmsfs.service.access import scopes
from cmsfs.service.content import files, items
from cmsfs.service.events import events
from cmsfs.service.oauth import clients
from cmsfs.service.provisioning import demo
from cmsfs.service.renditions import indexing
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.worker import extraction

RARE, COMMON = "zanzibar", "report"

_BATCH = 20_000
_WORDS = ["alpha", "bridge", "cargo", "delta", "estuary", "ferry", "garden", "harbour", "island", "jetty"]
_TEXT = b"Minutes of the meeting about the harbour, the ferry and the gulls.\n"

T = TypeVar("T")


async def make(root: Path, count: int) -> None:
    """Create a store with about `count` items in the folder, unless it has one."""
    done = root / "made"
    if done.exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    began = time.perf_counter()
    async with store.open_store(root) as opened:
        owner = await opened.write(lambda conn: _enterprise(conn, opened.now()))
        sha1 = opened.blobs.keep_bytes(_TEXT)
        steps = _Tree(opened, owner, sha1).steps(count)
        made = 0
        while batch := list(itertools.islice(steps, _BATCH)):
            await opened.write(_all(batch))
            made += len(batch)
            rate = made / (time.perf_counter() - began)
            print(f"\r  made {made:,} items, {rate:,.0f}/s", end="", file=sys.stderr)
    print(file=sys.stderr)
    done.write_text(f"{time.perf_counter() - began:.0f}\n")


def _all(steps: list[Callable[[Connection], object]]) -> Callable[[Connection], None]:
    def txn(conn: Connection) -> None:
        for step in steps:
            step(conn)

    return txn


def _enterprise(conn: Connection, now: int) -> Row:
    enterprise = demo.add_enterprise(conn, "Bench", now=now)
    owner = demo.add_user(conn, enterprise, "Bench", "bench@example.com", role="admin", now=now)
    clients.add(
        *(conn, "bench", "which the service replaces"),
        name="bench",
        enterprise=enterprise,
        service_user=owner["id"],
        scopes=" ".join(scopes.APPLICATION),
    )
    return owner


class _Tree:
    def __init__(self, opened: store.Store, owner: Row, sha1: str) -> None:
        self._store = opened
        self._owner = owner
        self._sha1 = sha1
        self._folders: dict[str, Row] = {}
        self._random = random.Random(1)

    def steps(self, count: int) -> Iterator[Callable[[Connection], object]]:
        """Yield the functions that create the tree, one per item."""
        made = 0
        for path, size in _shape(count):
            for name in _missing(path, self._folders):
                self._folders[name] = self._owner  # replaced by its row when it is made
                made += 1
                yield partial(self._folder, name)
            for _ in range(size):
                made += 1
                yield partial(self._file, path, made)

    def _folder(self, path: str, conn: Connection) -> None:
        above, _, name = path.rpartition("/")
        parent = self._folders[above] if above else items.find(conn, self._owner["root"])
        self._folders[path] = self._insert(conn, parent, items.New(ItemKind.FOLDER, name))

    def _file(self, path: str, number: int, conn: Connection) -> None:
        words = self._random.choices(_WORDS, k=2)
        if number % 10 == 0:
            words.append(COMMON)
        if number % 100_000 == 77:
            words.append(RARE)
        new = items.New(ItemKind.FILE, f"{' '.join(words)} {number}.txt", len(_TEXT), self._sha1)
        row = self._insert(conn, self._folders[path], new)
        row = files.add_version(conn, row, by=self._owner["id"], now=row["created_at"], event=None)
        if number % 10 == 5:
            indexing.record_content(conn, row, extraction.FirstLook(_TEXT.decode(), promising=False))
        if number % 1000 == 3:
            events.record(conn, row, "ITEM_UPLOAD", by=self._owner["id"], now=row["created_at"])

    def _insert(self, conn: Connection, parent: Row, new: items.New) -> Row:
        by = self._owner["id"]
        return items.insert(conn, parent, new, by=by, now=self._store.now(), event=None)


def _shape(count: int) -> Iterator[tuple[str, int]]:
    """Yield the paths of folders and how many files each has."""
    for number in range(count * 15 // 100 // 500):
        yield f"middle/m{number % 20:02}/n{number:04}", 499
    yield "flat", count // 50
    yield "deep/a/b/c/d/e/f/g", max(count // 200, 200)
    left = count - count * 15 // 100 - count // 50 - count // 200
    for number in range(left // 100):
        yield f"projects/p{number // 100:03}/q{number // 10 % 10}/r{number % 10}", 99


def _missing(path: str, known: dict[str, Row]) -> list[str]:
    parts = path.split("/")
    found = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return [one for one in found if one not in known]
