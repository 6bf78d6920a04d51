"""The rows of a large tree, computed from their numbers, so that both engines get the same ones.

One folder with a seventh of everything below it, one flat folder, one deep chain of folders with some
thousand files at its end, and projects of a thousand files each.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from cmsfs.models import wire_names
from cmsfs.service.content import items

RARE, COMMON = "zanzibar", "report"
DEEP = "deep/a/b/c/d/e/f/g"
TEXT = "Minutes of the meeting about the harbour, the ferry and the gulls.\n"

# The columns of `Tree.items`, in their order.
COLUMNS = (
    *("id", "kind", "owner", "parent", "path", "name", "name_key", "extension"),
    *("created_at", "modified_at", "content_created_at", "content_modified_at"),
    *("created_by", "modified_by", "size", "version", "sha1"),
)

_WORDS = ("alpha", "bridge", "cargo", "delta", "estuary", "ferry", "garden", "harbour", "island", "jetty")
_FIRST, _FIRST_VERSION = 1_000_000, 1_000_000
_BEGAN = 1_760_000_000_000_000  # microseconds
_EACH = 1_000


@dataclass(slots=True)
class Folder:
    number: int
    parent: int
    path: str  # of ids
    name: str
    own: int = 0  # files in it
    below: int = 0  # files in it and in all below


class Tree:
    """A tree of so many items, all of one user; folders come first."""

    def __init__(self, count: int, *, owner: int, root: int, sha1: str) -> None:
        self._owner, self._sha1 = owner, sha1
        self.folders: dict[str, Folder] = {"": Folder(root, 0, "/", "")}
        for path, size in _shape(count):
            self._folder(path).own = size
            for end in range(path.count("/") + 2):
                self._folder("/".join(path.split("/")[:end])).below += size
        self.files = self.folders[""].below
        self.first_file = _FIRST + len(self.folders)

    @property
    def last(self) -> int:
        """Return the largest item number."""
        return self.first_file + self.files

    @property
    def last_version(self) -> int:
        return _FIRST_VERSION + self.files

    @property
    def size(self) -> int:
        """Return the total size of all files in bytes."""
        return self.files * len(TEXT)

    def _folder(self, path: str) -> Folder:
        found = self.folders.get(path)
        if found is None:
            above, _, name = path.rpartition("/")
            parent = self._folder(above)
            line = f"{parent.path}{parent.number}/"
            found = Folder(_FIRST + len(self.folders), parent.number, line, name)
            self.folders[path] = found
        return found

    def items(self) -> Iterator[tuple[object, ...]]:
        for path, folder in self.folders.items():
            if path:
                yield self._row(folder, 0, folder.below * len(TEXT), None, None)
        for number, version, parent, name in self._files():
            file = Folder(number, parent.number, f"{parent.path}{parent.number}/", name)
            yield self._row(file, 1, len(TEXT), version, self._sha1)

    def versions(self) -> Iterator[tuple[object, ...]]:
        """id, file, sha1, size, name, created_at, created_by"""
        for number, version, _, name in self._files():
            yield version, number, self._sha1, len(TEXT), name, _moment(number), self._owner

    def documents(self) -> Iterator[tuple[int, str, str]]:
        """Yield number, name and text of each item."""
        for path, folder in self.folders.items():
            if path:
                yield folder.number, folder.name, ""
        for number, _, _, name in self._files():
            yield number, name, TEXT if number % 10 == 5 else ""

    def _row(
        self, one: Folder, kind: int, size: int, version: int | None, sha1: str | None
    ) -> tuple[object, ...]:
        moment = _moment(one.number)
        return (
            *(one.number, kind, self._owner, one.parent, one.path, one.name),
            *(wire_names.name_key(one.name), items.extension(one.name) if kind else ""),
            *(moment, moment, moment, moment, self._owner, self._owner, size, version, sha1),
        )

    def _files(self) -> Iterator[tuple[int, int, Folder, str]]:
        """Yield number, version, folder and name of each file."""
        dice = random.Random(1)
        number = self.first_file
        for folder in self.folders.values():
            for _ in range(folder.own):
                words = dice.choices(_WORDS, k=2)
                if number % 10 == 0:
                    words.append(COMMON)
                if number % 100_000 == 77:
                    words.append(RARE)
                yield (
                    number,
                    number - self.first_file + _FIRST_VERSION,
                    folder,
                    f"{' '.join(words)} {number}.txt",
                )
                number += 1


def _moment(number: int) -> int:
    return _BEGAN + (number - _FIRST) * _EACH


def _shape(count: int) -> Iterator[tuple[str, int]]:
    """Yield the paths of folders and how many files each has."""
    for number in range(count * 15 // 100 // 500):
        yield f"middle/m{number % 20:02}/n{number:04}", 499
    yield "flat", count // 50
    yield DEEP, max(count // 200, 200)
    left = count - count * 15 // 100 - count // 50 - count // 200
    for number in range(left // 100):
        yield f"projects/p{number // 100:03}/q{number // 10 % 10}/r{number % 10}", 99
