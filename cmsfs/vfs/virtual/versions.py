"""File versions: the folder `report.odt@versions` holds the versions before the current one.

It exists beside every file that the service knows, but is not listed; each version is named by time and
author, keeps the file's suffix, and can be read.  Copying one over the file restores it, as a new version.

Users who may not read the file may not read its versions.

Rule: names are assigned from the oldest on, so that a new version never changes the name of an older one.
"""

import errno
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from cmsfs import errors
from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import Content, Ino, Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualFolder, VirtualNode

SUFFIX = "@versions"

# Cache time of a file's version list, while its current version is the same.
FRESH_SECONDS = 60.0

# Maximum age of the version list when the folder is opened.
OPENED_SECONDS = 2.0

# Number of files whose version lists are cached.
REMEMBERED = 100

# Maximum number of characters of an author's name.
_AUTHOR = 60
_UNWANTED = re.compile(r"[/\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class PastVersion:
    """One past version of a file."""

    id: str
    sha1: str
    size: int
    made_ns: int
    author: str


class VersionsPort(Protocol):
    """Provides past versions."""

    async def past(self, file_id: str) -> Sequence[PastVersion]:
        """Return the past versions that are not deleted, newest first.  Raises `RemoteError`."""


class VersionViews(Views):
    """Finds `NAME@versions` for every file NAME; `check` raises `OSError` if a file may not be read."""

    def __init__(
        self, db: Database, history: VersionsPort, check: Callable[[Node], Awaitable[None]] | None = None
    ) -> None:
        self._db = db
        self._history = history
        self._check = check
        self._known: OrderedDict[Ino, _Past] = OrderedDict()

    def covers(self, name: str) -> bool:
        return name.endswith(SUFFIX)

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        node = tree.find_child(self._db, parent, name.removesuffix(SUFFIX))
        if node is None or node.kind is not NodeKind.FILE or node.remote_id is None:
            return None
        past = self._known.setdefault(node.ino, _Past(self._db, self._history, node.ino, self._check))
        self._known.move_to_end(node.ino)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return VersionsFolder(node, past)


class _Past:
    """The cached version list of one file."""

    def __init__(
        self,
        db: Database,
        history: VersionsPort,
        ino: Ino,
        check: Callable[[Node], Awaitable[None]] | None,
    ) -> None:
        self._check = check
        self._db = db
        self._history = history
        self._ino = ino
        self._heard: tuple[str | None, float] | None = None  # the current version then, and when
        self._lines: list[tuple[str, VirtualNode]] = []

    async def check(self) -> None:
        """Raise `OSError` if the file is gone, or may no longer be read."""
        node = tree.find(self._db, self._ino)
        if node is None or node.parent is None or node.is_lost:
            raise errno_map.oserror(errno.ENOENT)
        if self._check is not None:
            await self._check(node)

    async def lines(self, at_most: float) -> list[tuple[str, VirtualNode]]:
        """Return the versions with their names, newest first, at most `at_most` seconds old; while the
        service is unreachable, the last known ones."""
        node = tree.find(self._db, self._ino)
        if node is None or node.remote_id is None:
            raise errno_map.oserror(errno.ENOENT)
        now = clock.monotonic()
        if self._heard is not None and self._heard[0] == node.version and now - self._heard[1] <= at_most:
            return self._lines
        try:
            past = await self._history.past(node.remote_id)
        except (errors.Offline, errors.RemoteTimeout):
            if self._heard is None:
                raise
            return self._lines
        self._lines = [
            (name, VersionFile(node.remote_id, version, self))
            for name, version in version_names(node.name, past)
        ]
        self._heard = node.version, now
        return self._lines


class VersionsFolder(VirtualFolder):
    """`NAME@versions`."""

    def __init__(self, node: Node, past: _Past) -> None:
        super().__init__(("versions", node.ino), mtime_ns=node.mtime_ns)
        self._past = past

    async def opened(self) -> None:
        await self._past.lines(OPENED_SECONDS)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        return (await self._past.lines(FRESH_SECONDS))[position:]


class VersionFile(VirtualFile):
    """One version."""

    def __init__(self, file_id: str, version: PastVersion, past: _Past) -> None:
        super().__init__(("version", file_id, version.id), mtime_ns=version.made_ns)
        self.size = version.size
        # The attributes of a version never change.
        self.timeout = FRESH_SECONDS
        self._file_id = file_id
        self._version = version
        self._past = past

    async def open(self) -> bytes | Content:
        # Its contents may be cached.
        await self._past.check()
        version = self._version
        return Content(version.sha1, version.size, self._file_id, version.id)

    async def xattrs(self) -> Mapping[str, bytes]:
        told = {
            "id": self._file_id,
            "version": self._version.id,
            "sha1": self._version.sha1,
            "modified_by": self._version.author,
        }
        return {f"user.cms.{name}": value.encode() for name, value in told.items()}


def version_names(name: str, past: Sequence[PastVersion]) -> list[tuple[str, PastVersion]]:
    """Return each version with its name, in the given order, newest first.  A name has local time, author and
    the file's suffix, and `(2)` and so on for several by one author in one second."""
    suffix = PurePosixPath(name).suffix
    if len(suffix.encode()) > naming.MAX_SUFFIX_BYTES:
        suffix = ""
    taken: set[str] = set()
    lines = []
    for version in reversed(past):
        when = time.strftime("%Y-%m-%d %H.%M.%S", time.localtime(version.made_ns // 10**9))
        author = _UNWANTED.sub("_", version.author)[:_AUTHOR].strip()
        stem = chosen = f"{when} {author}".rstrip()
        count = 1
        while chosen in taken:
            count += 1
            chosen = f"{stem} ({count})"
        taken.add(chosen)
        lines.append((chosen + suffix, version))
    lines.reverse()
    return lines
