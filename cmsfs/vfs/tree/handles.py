"""The table of open files and folders.

All handles of an inode share one `OpenFile`, so that what one writes another reads.  A change made elsewhere
does not touch it: the name leads to another inode then (`replica.merge.lineages`), and two versions never
mix.

Rule: an `OpenFile` reads either from its draft or from its content; `source` says which, now.
"""

import itertools
from dataclasses import dataclass, field

import trio

from cmsfs.cache.blocks import BlockCache
from cmsfs.cache.readahead import ReadaheadWindow
from cmsfs.journal.draft import Draft
from cmsfs.replica.nodes import Content, Ino, Node


class OpenFile:
    """A file that is open in one or more handles."""

    def __init__(
        self,
        node: Node,
        blocks: BlockCache,
        *,
        draft: Draft | None,
        text: bytes | None = None,
        elsewhere: tuple[str, str | None] | None = None,
    ) -> None:
        """`text`: of a web link, until it is written to; `elsewhere`: the item and version that have the
        bytes, if it is not the node's own."""
        self.ino = node.ino
        self.text = text
        self.handles = 0
        self.writers = 0
        # Making a draft takes a transaction; two writers must not make two.
        self.drafting = trio.Lock()
        self._blocks = blocks
        self._draft = draft
        self._content: Content | None = None
        self._held: list[tuple[str, int]] = []
        if draft is None and node.sha1 is not None:
            own = (node.remote_id, node.version) if is_at_service(node) else None
            self._content = Content(node.sha1, node.size, *(own or elsewhere or (None, None)))

    @property
    def draft(self) -> Draft | None:
        """The draft, while there is one; once it is sealed, what it became is the content."""
        draft = self._draft
        if draft is not None and draft.content is not None:
            sha1, size = draft.content
            self._draft = None
            self._content = Content(sha1, size, None, None)
            self._hold(sha1, size)
        return self._draft

    @property
    def content(self) -> Content | None:
        """The content, while there is no draft; None for a file that has no bytes yet."""
        return None if self.draft is not None else self._content

    def wrote(self, draft: Draft) -> None:
        """From now on the file is this draft."""
        self._draft = draft
        self.text = None
        draft.count_writers(self.writers)
        if draft.base_sha1 is not None:
            self._hold(draft.base_sha1, draft.base_total)

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
            for sha1, _ in self._held:
                self._blocks.close(sha1)
            self._held.clear()
            self._draft = None

    def hold(self, *, is_cut: bool = False) -> None:
        """Keep the content that the file was opened with from being evicted, unless nobody will read it."""
        if self._content is not None and self._draft is None and not is_cut and not self._held:
            self._hold(self._content.sha1, self._content.size)

    def _hold(self, sha1: str, size: int) -> None:
        """Keep content from being evicted while it is open here."""
        if size:
            self._blocks.open(sha1, size)
            self._held.append((sha1, size))


def is_at_service(node: Node) -> bool:
    """Whether the node's item has the node's bytes."""
    return node.remote_id is not None and node.sha1 == node.base_sha1


@dataclass(slots=True)
class Handle:
    """An open file description."""

    file: OpenFile
    writable: bool
    appends: bool = False  # whatever it writes goes to the end
    window: ReadaheadWindow = field(default_factory=ReadaheadWindow)
    begun: bool = False  # it was read from its beginning
    doubts: int | None = None  # those of the content (`BlockCache.doubts`) when it was first read


@dataclass(frozen=True, slots=True)
class FolderHandle:
    """An open folder."""

    ino: Ino


class Handles:
    """The table of open descriptions, by the number that the kernel holds."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Handle | FolderHandle] = {}

    def add(self, handle: Handle | FolderHandle) -> int:
        fh = next(self._numbers)
        self._open[fh] = handle
        return fh

    def file(self, fh: int) -> Handle:
        """KeyError or TypeError here is a bug of the caller, never of a program."""
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

    def __len__(self) -> int:
        return len(self._open)
