"""One item in the trash: its attributes and contents.

Services do not list the contents of a deleted folder: it is shown empty, and restored with its contents.
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

# The key of an item's node is this and the item's key.
TRASH = "trash"

# Returns an item's original path; called only on demand, since finding a path takes longer than all else.
OriginalPath = Callable[[Remote], str]


def facts(item: Remote, original_path: str) -> dict[str, bytes]:
    """Return the extended attributes of an item in the trash; unknown ones are omitted."""
    assert not isinstance(item.item, entries.Entry)
    values = item_fields.values(item.item) | {"original_path": original_path}
    if "modified_by" in values:
        # The deletion is the last modification of an item.
        values["deleted_by"] = values["modified_by"]
    return {f"{item_fields.PREFIX}{name}": value.encode() for name, value in values.items()}


class _Shown(VirtualNode):
    """The common part of all items in the trash."""

    def __init__(self, node_key: Hashable, item: Remote, original_path: OriginalPath) -> None:
        super().__init__(node_key, mtime_ns=item.mtime_ns)
        self.item = item
        self._original_path = original_path

    def attributes(self, ino: Ino) -> Attributes:
        found = super().attributes(ino)
        if (at := self.item.item.trashed_at) is None:
            return found
        # The modification time is the file's; its change time (ctime) is the deletion.
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
    """A deleted folder, shown empty because its contents are unknown."""

    kind = stat.S_IFDIR
    # The kernel requires write permission for a folder that is moved.
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
        """Return its contents if they are cached; services do not serve contents of items in the trash."""
        if self.item.kind is NodeKind.LINK:
            return url_files.text(*shortcut_of(self.item.item))
        if not self.item.size:
            return b""
        if self.item.sha1 is None or not self._blocks.is_complete(self.item.sha1):
            raise errno_map.oserror(errno.EACCES, "in the trash, and not cached here: move it out to read it")
        return Content(self.item.sha1, self.item.size, self.item.id, self.item.version)


def build_node(item: Remote, original_path: OriginalPath, blocks: BlockCache) -> VirtualNode:
    """Return the node for an item in the trash."""
    node_key = (TRASH, *item.key)
    if item.kind is NodeKind.FOLDER:
        return TrashedFolder(node_key, item, original_path)
    return TrashedFile(node_key, item, original_path, blocks)
