"""The table of open files and folders.

All handles of an inode share one `OpenFile`, so that each reads what another has written.  A remote change
does not affect it: the name gets another inode then (`replica.merge.lineages`), and two versions never mix.

Rule: an `OpenFile` reads either from its draft or from its content: callers check `draft` first, which
detects that the draft was sealed.
"""

import itertools
import os
from dataclasses import dataclass, field

import trio

from cmsfs.cache.blocks import BlockCache
from cmsfs.cache.readahead import ReadaheadWindow
from cmsfs.journal.draft import Draft, DraftVersion
from cmsfs.replica.nodes import Content, Ino

_WRITING = os.O_WRONLY | os.O_RDWR

# The version of the kernel's pages: a SHA-1, the text of a web link, or that of a draft.
PageVersion = str | bytes | DraftVersion | None


class OpenFile:
    """A file that is open in one or more handles."""

    def __init__(
        self,
        ino: Ino,
        blocks: BlockCache,
        *,
        draft: Draft | None,
        content: Content | None = None,
        text: bytes | None = None,
    ) -> None:
        """`text` is the text of a web link, until it is written to."""
        self.ino = ino
        self.text = text
        # Set while there is no draft; None for a file without contents.
        self.content = content
        self.handles = 0
        self.writers = 0
        # Creating a draft takes a transaction; concurrent writers must not create two.
        self.drafting = trio.Lock()
        self._blocks = blocks
        self._draft = draft
        # The contents that are kept from eviction, by SHA-1.
        self.held: list[str] = []

    @property
    def draft(self) -> Draft | None:
        """The draft, if there is one; after it is sealed, its contents are in `content`."""
        draft = self._draft
        if draft is not None and draft.content is not None:
            sha1, size = draft.content
            self._draft = None
            self.content = Content(sha1, size, None, None)
            self.hold(sha1, size)
        return self._draft

    @property
    def version(self) -> PageVersion:
        """The version of pages that the kernel reads now."""
        if (draft := self.draft) is not None:
            return draft.version
        if self.text is not None:
            return self.text
        if self.content is None:
            return None
        # Pages of damaged downloads must not match any version.
        sha1 = self.content.sha1
        doubts = self._blocks.doubts[sha1]
        return f"{sha1} {doubts}" if doubts else sha1

    def wrote(self, draft: Draft) -> None:
        """Make this the draft of the file."""
        self._draft = draft
        self.text = self.content = None
        draft.count_writers(self.writers)
        if draft.base_sha1 is not None:
            self.hold(draft.base_sha1, draft.base_total)

    def opened(self, *, writable: bool) -> None:
        self.handles += 1
        if writable:
            self.writers += 1
            if (draft := self.draft) is not None:
                draft.count_writers(1)

    def closed(self, *, writable: bool) -> None:
        self.handles -= 1
        if writable:
            self.writers -= 1
            if (draft := self.draft) is not None:
                draft.count_writers(-1)
        if not self.handles:
            for sha1 in self.held:
                self._blocks.close(sha1)
            self.held.clear()
            self._draft = None

    def hold(self, sha1: str, size: int) -> None:
        """Keep content from eviction while the file is open."""
        if size:
            self._blocks.open(sha1, size)
            self.held.append(sha1)


@dataclass(slots=True)
class Handle:
    """An open file description."""

    file: OpenFile
    writable: bool
    appends: bool = False  # opened with O_APPEND
    window: ReadaheadWindow = field(default_factory=ReadaheadWindow)
    begun: bool = False  # the start of the file was read
    doubts: int | None = None  # `BlockCache.doubts` of the content at the first read

    @property
    def flags(self) -> int:
        """The relevant flags of `open`."""
        return (os.O_RDWR if self.writable else 0) | (os.O_APPEND if self.appends else 0)


@dataclass(frozen=True, slots=True)
class FolderHandle:
    """An open folder."""

    ino: Ino


class Handles:
    """The table of open file descriptions, by file handle number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Handle | FolderHandle] = {}

    def open(self, file: OpenFile, flags: int) -> int:
        """Create an open file description, which the file counts; return its number."""
        fh = next(self._numbers)
        self._put(fh, file, flags)
        return fh

    def _put(self, fh: int, file: OpenFile, flags: int) -> None:
        writable = bool(flags & _WRITING)
        file.opened(writable=writable)
        self._open[fh] = Handle(file, writable, bool(flags & os.O_APPEND))

    def open_folder(self, ino: Ino) -> int:
        fh = next(self._numbers)
        self._open[fh] = FolderHandle(ino)
        return fh

    def packed(self) -> list[list[int]]:
        """Return the open descriptions as JSON values: number, inode, and the flags of a file or -1."""
        return [
            [fh, one.ino, -1] if isinstance(one, FolderHandle) else [fh, one.file.ino, one.flags]
            for fh, one in self._open.items()
        ]

    def reopen(self, fh: int, opened: OpenFile | Ino, flags: int) -> None:
        """Register a description that another process has opened under this number."""
        self._numbers = itertools.count(max(fh, *self._open) + 1 if self._open else fh + 1)
        if isinstance(opened, OpenFile):
            self._put(fh, opened, flags)
        else:
            self._open[fh] = FolderHandle(opened)

    def file(self, fh: int) -> Handle:
        """Return the handle of a file.  KeyError and TypeError are bugs of the caller, not of a program."""
        handle = self._open[fh]
        if not isinstance(handle, Handle):
            raise TypeError(f"handle {fh} is a folder")
        return handle

    def folder(self, fh: int) -> FolderHandle:
        handle = self._open[fh]
        if not isinstance(handle, FolderHandle):
            raise TypeError(f"handle {fh} is a file")
        return handle

    def remove(self, fh: int) -> Handle | FolderHandle:
        return self._open.pop(fh)

    def has_writer(self, ino: Ino) -> bool:
        """Whether a handle on this file may write; goes over all handles."""
        return any(
            isinstance(one, Handle) and one.writable and one.file.ino == ino for one in self._open.values()
        )

    def __len__(self) -> int:
        return len(self._open)
