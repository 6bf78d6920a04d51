"""One item in the trash: its attributes and bytes there.

Rule: what is in a deleted folder is told by no service: such a folder is shown empty, and comes back whole.
"""

import errno
import stat
from collections.abc import Callable, Hashable, Mapping

from cmsfs.cache.blocks import BlockCache
from cmsfs.models import url_files
from cmsfs.models.content import entries
from cmsfs.replica.nodes import Content, Ino, NodeKind, Remote, shortcut_of
from cmsfs.vfs import errno_map
from cmsfs.vfs.attrs import item_fields
from cmsfs.vfs.tree.attributes import Attributes
from cmsfs.vfs.virtual.node import VirtualFile, VirtualFolder, VirtualNode

# The key of an item's node is this, and the item's.
TRASH = "trash"

# Where an item was: asked only for who reads that, since finding a path takes longer than all the rest.
OriginalPath = Callable[[Remote], str]


def facts(item: Remote, original_path: str) -> dict[str, bytes]:
    """The extended attributes of an item in the trash; what the service does not say is left out."""
    assert not isinstance(item.item, entries.Entry)
    values = item_fields.values(item.item) | {"original_path": original_path}
    if "modified_by" in values:
        # The deletion is the last change of an item.
        values["deleted_by"] = values["modified_by"]
    return {f"{item_fields.PREFIX}{name}": value.encode() for name, value in values.items()}


class _Shown(VirtualNode):
    """What all that is in the trash has in common."""

    def __init__(self, node_key: Hashable, item: Remote, original_path: OriginalPath) -> None:
        super().__init__(node_key, mtime_ns=item.mtime_ns)
        self.item = item
        self._original_path = original_path

    def attributes(self, ino: Ino) -> Attributes:
        found = super().attributes(ino)
        if (at := self.item.item.trashed_at) is None:
            return found
        # The modification time is the file's; when it was deleted is its last change.
        ctime_ns = int(at.timestamp()) * 10**9
        return Attributes(
            ino=ino,
            mode=self.kind | self.mode,
            size=self.size,
            nlink=1,
            timeout=self.timeout,
            atime_ns=self.mtime_ns,
            mtime_ns=self.mtime_ns,
            ctime_ns=ctime_ns,
        )

    async def xattrs(self) -> Mapping[str, bytes]:
        return facts(self.item, self._original_path(self.item))


class TrashedFolder(_Shown, VirtualFolder):
    """A deleted folder, closed: nobody tells what is in it."""

    kind = stat.S_IFDIR
    # The kernel asks for the right to write a folder that is to be moved.
    mode = 0o700


class TrashedFile(_Shown, VirtualFile):
    """A deleted file or web link."""

    kind = stat.S_IFREG

    def __init__(
        self, node_key: Hashable, item: Remote, original_path: OriginalPath, blocks: BlockCache
    ) -> None:
        super().__init__(node_key, item, original_path)
        self.size = item.size
        self._blocks = blocks

    async def open(self) -> bytes | Content:
        """Its bytes, if they are here; no service gives out those of what is in its trash."""
        if self.item.kind is NodeKind.LINK:
            return url_files.text(*shortcut_of(self.item.item))
        if not self.item.size:
            return b""
        if self.item.sha1 is None or not self._blocks.is_complete(self.item.sha1):
            raise errno_map.oserror(errno.EACCES, "in the trash, and not cached here: move it out to read it")
        return Content(self.item.sha1, self.item.size, self.item.id, self.item.version)


def build_node(item: Remote, original_path: OriginalPath, blocks: BlockCache) -> VirtualNode:
    """The node that stands for an item."""
    node_key = (TRASH, *item.key)
    if item.kind is NodeKind.FOLDER:
        return TrashedFolder(node_key, item, original_path)
    return TrashedFile(node_key, item, original_path, blocks)
