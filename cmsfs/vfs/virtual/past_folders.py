"""Folders as of an earlier time: `FOLDER@2h`, `FOLDER@yesterday`, `FOLDER@2026-11-20T14:00`; `@2h` alone is
the current folder.

They are found by name, appear in no listing, and are read-only (EROFS): names, places, contents, sizes and
times are those of the given time.  A folder deleted since is found by the name that it had.

Rule: nothing is guessed.  What the service does not tell is listed in `user.cms.not_known` of the item
concerned; reading unknown contents fails with ENODATA.
"""

import errno
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cmsfs.models import url_files
from cmsfs.replica import naming
from cmsfs.replica.nodes import FILE_MODE, FOLDER_MODE, Content, Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualFolder, VirtualNode

log = logging.getLogger(__name__)

# `FOLDER@2h` keeps meaning the same moment until it has not been used for this long.
SAME_SECONDS = 300.0
REMEMBERED = 100

# Cache timeout of attributes: the past does not change.
FRESH_SECONDS = 60.0

# Number of entries returned at a time when a folder is read.
PAGE = 256

# Interval of warnings about unreadable contents: a program that copies a folder continues with the next file.
WARN_INTERVAL_SECONDS = 60.0

_MOMENT = re.compile(r"yesterday|\d{1,6}(s|min|m|h|d|w)|\d{4}-\d\d-\d\d(T[0-9:.+Z-]+)?")

# Lists what is unknown of an item: its name, folder, contents, a folder's entries, or that it was deleted.
NOT_KNOWN = "user.cms.not_known"


@dataclass(frozen=True, slots=True)
class PastItem:
    """An item as it was, with its name on the drive; `not_known`: words for what cannot be known of it."""

    kind: NodeKind
    id: str
    name: str
    mtime_ns: int
    size: int = 0
    sha1: str | None = None
    version: str | None = None
    link: url_files.Shortcut | None = None
    not_known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEntries:
    """The past entries of a folder, and whether they are complete."""

    items: Sequence[PastItem]
    is_complete: bool


class PastPort(Protocol):
    """Provides past states; all methods raise `CmsfsError`."""

    async def folder(self, parent: Ino, name: str, moment: datetime) -> PastItem | None:
        """Return the folder that has this name in `parent` now, as it was then; if it was not there yet, or
        no longer is, the one that had the name then; "": the folder `parent` itself.  None if there is none.
        """

    async def entries(self, folder_id: str, moment: datetime) -> PastEntries:
        """Return the past entries of a folder."""

    def known(self, folder_id: str, moment: datetime) -> PastEntries | None:
        """Return the same if it is already known, without a request."""

    async def check_read(self, item: PastItem) -> None:
        """Raise `OSError` if the contents of a file cannot be obtained."""


class PastViews(Views):
    """Finds `FOLDER@TIME`; `parse` converts the text to a time, or raises `ValueError`."""

    # `yesterday` changes at midnight, and folders may appear.
    comes_and_goes = True

    def __init__(self, port: PastPort, parse: Callable[[str], datetime]) -> None:
        self._port = port
        self._parse = parse
        self._pasts: OrderedDict[str, tuple[_Past, float]] = OrderedDict()

    def covers(self, name: str) -> bool:
        at = name.rfind("@")
        return at >= 0 and _MOMENT.fullmatch(name, at + 1) is not None

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        stem, _, text = name.rpartition("@")
        if (past := self._past(text)) is None:
            return None
        found = await self._port.folder(parent, stem, past.moment)
        return PastFolder(past, found) if found is not None else None

    def _past(self, text: str) -> "_Past | None":
        now = clock.monotonic()
        known = self._pasts.pop(text, None)
        if known is not None and now - known[1] <= SAME_SECONDS:
            past = known[0]
        else:
            try:
                past = _Past(self._port, self._parse(text))
            except ValueError:
                return None
        self._pasts[text] = past, now
        if len(self._pasts) > REMEMBERED:
            self._pasts.popitem(last=False)
        return past


class _Past:
    """State shared by all nodes of the same moment."""

    def __init__(self, port: PastPort, moment: datetime) -> None:
        self.port = port
        self.moment = moment
        self.warned_at = float("-inf")

    def xattrs_of(self, item: PastItem, not_known: Sequence[str]) -> dict[str, bytes]:
        values = {
            "as_of": self.moment.isoformat(timespec="seconds"),
            "id": item.id,
            "type": str(item.kind),
            "sha1": item.sha1,
            "version": item.version,
            "not_known": ",".join(not_known),
        }
        return {f"user.cms.{name}": value.encode() for name, value in values.items() if value}

    def warn(self, name: str, reason: str) -> None:
        if clock.monotonic() - self.warned_at > WARN_INTERVAL_SECONDS:
            self.warned_at = clock.monotonic()
            log.warning("%s as of %s cannot be read: %s", name, self.moment.isoformat(" ", "minutes"), reason)


class _Shown(VirtualNode):
    is_past = True
    timeout = FRESH_SECONDS

    def __init__(self, past: _Past, item: PastItem) -> None:
        super().__init__(("past", past.moment, item.kind, item.id), mtime_ns=item.mtime_ns)
        self._past = past
        self._item = item

    async def xattrs(self) -> Mapping[str, bytes]:
        return self._past.xattrs_of(self._item, self._item.not_known)


class PastFolder(_Shown, VirtualFolder):
    """A folder as it was."""

    mode = FOLDER_MODE

    def __init__(self, past: _Past, item: PastItem) -> None:
        super().__init__(past, item)
        self._lines: dict[str, VirtualNode] | None = None

    async def child(self, name: str) -> VirtualNode:
        if (found := (await self._all()).get(name)) is None:
            raise errno_map.oserror(errno.ENOENT, name)
        return found

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        return list((await self._all()).items())[position : position + PAGE]

    async def xattrs(self) -> Mapping[str, bytes]:
        return self._folder_xattrs(self._past.port.known(self._item.id, self._past.moment))

    async def xattr(self, name: str) -> bytes | None:
        # `ls -l` asks every entry for unrelated attributes.
        if name != NOT_KNOWN:
            return await super().xattr(name)
        return self._folder_xattrs(await self._past.port.entries(self._item.id, self._past.moment)).get(name)

    def _folder_xattrs(self, entries: PastEntries | None) -> dict[str, bytes]:
        more = ("entries",) if entries is not None and not entries.is_complete else ()
        return self._past.xattrs_of(self._item, (*self._item.not_known, *more))

    async def _all(self) -> dict[str, VirtualNode]:
        if self._lines is None:
            found = await self._past.port.entries(self._item.id, self._past.moment)
            lines: dict[str, VirtualNode] = {}
            for item in found.items:
                # Two items may have the same name if the past name of one is unknown.
                name = naming.distinct(item.name, f"id {item.id}") if item.name in lines else item.name
                lines[name] = self._node(item)
            self._lines = lines
        return self._lines

    def _node(self, item: PastItem) -> VirtualNode:
        kind = PastFolder if item.kind is NodeKind.FOLDER else PastFile
        return kind(self._past, item)


class PastFile(_Shown, VirtualFile):
    """A file, or a web link, as it was."""

    mode = FILE_MODE

    def __init__(self, past: _Past, item: PastItem) -> None:
        super().__init__(past, item)
        self.size = item.size

    async def open(self) -> bytes | Content:
        item = self._item
        if item.link is not None:
            return url_files.text(*item.link)
        if item.sha1 is None:
            self._past.warn(item.name, "the service does not tell what it said then")
            raise errno_map.oserror(errno.ENODATA, item.name)
        if not item.size:
            return b""
        try:
            await self._past.port.check_read(item)
        except PermissionError as error:
            self._past.warn(item.name, str(error.filename or error.strerror))
            raise
        return Content(item.sha1, item.size, item.id, item.version)
