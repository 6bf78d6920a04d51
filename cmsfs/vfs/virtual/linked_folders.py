"""`.shared`: the targets of web links on the drive that are shared links of the same service, as folders.

    .shared/                     a folder for each `.url` file on the drive with a shared link
    .shared/Plans/               the target of the link in `Plans.url`: a folder's items, or a single file

Its contents are not in the account's tree: they can be read, as the link permits, but not changed.  The
folder itself is listed without a request; a request is sent when the folder of a link is opened.

Rule: names chosen by other users are sanitized as in `Shared with me`, since programs act on some names.
"""

import errno
from collections.abc import Mapping, Sequence
from typing import Protocol

from cmsfs.models import url_files
from cmsfs.replica import naming
from cmsfs.replica.nodes import Content, NodeKind, Remote, shortcut_of
from cmsfs.vfs import errno_map
from cmsfs.vfs.virtual.node import VirtualFile, VirtualFolder, VirtualNode

NAME = ".shared"


class LinkedFoldersPort(Protocol):
    """Provides the targets of shared links."""

    async def links(self) -> Sequence[tuple[str, str]]:
        """Return the shared links in `.url` files of the drive: names and URLs."""

    async def inside(self, url: str, folder_id: str | None, *, anew: bool) -> Sequence[Remote]:
        """Return the items of a link's folder (None) or of one below it; `anew` bypasses the cache.
        Raises `RemoteError`."""

    def will_read(self, url: str, file_id: str) -> None:
        """Prepare to read a file that is accessible only through the link."""


class LinksFolder(VirtualFolder):
    """The folder `.shared`."""

    def __init__(self, port: LinkedFoldersPort) -> None:
        super().__init__(("shared links",))
        self._port = port

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        links = await self._port.links()
        return [(name, LinkedFolder(self._port, url)) for name, url in links[position:]]


class LinkedFolder(VirtualFolder):
    """The target of a link, or a folder below it."""

    def __init__(self, port: LinkedFoldersPort, url: str, folder: Remote | None = None) -> None:
        self._id = None if folder is None else folder.id
        super().__init__(("shared link", url, self._id), mtime_ns=None if folder is None else folder.mtime_ns)
        self._port = port
        self._url = url

    async def opened(self) -> None:
        await self._port.inside(self._url, self._id, anew=True)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        return (await self._lines())[position:]

    async def child(self, name: str) -> VirtualNode:
        found = dict(await self._lines()).get(name)
        if found is None:
            raise errno_map.oserror(errno.ENOENT, name)
        return found

    async def xattrs(self) -> Mapping[str, bytes]:
        return {"user.cms.url": self._url.encode()}

    async def _lines(self) -> list[tuple[str, VirtualNode]]:
        found = await self._port.inside(self._url, self._id, anew=False)
        return [(naming.file_name(one.kind, one.name, foreign=True), self._node(one)) for one in found]

    def _node(self, one: Remote) -> VirtualNode:
        if one.kind is NodeKind.FOLDER:
            return LinkedFolder(self._port, self._url, one)
        return LinkedFile(self._port, self._url, one)


class LinkedFile(VirtualFile):
    """A file or web link that is accessible through a link."""

    def __init__(self, port: LinkedFoldersPort, url: str, remote: Remote) -> None:
        super().__init__(("shared file", url, remote.kind, remote.id), mtime_ns=remote.mtime_ns)
        self.size = remote.size
        self._port = port
        self._url = url
        self._remote = remote

    async def open(self) -> bytes | Content:
        remote = self._remote
        if remote.kind is NodeKind.LINK:
            return url_files.text(*shortcut_of(remote.item))
        if not remote.size:
            return b""
        if remote.sha1 is None:
            raise errno_map.oserror(errno.EOPNOTSUPP, remote.name)
        self._port.will_read(self._url, remote.id)
        return Content(remote.sha1, remote.size, remote.id, remote.version)

    async def xattrs(self) -> Mapping[str, bytes]:
        told = {"id": self._remote.id, "type": str(self._remote.item.type), "sha1": self._remote.sha1}
        return {f"user.cms.{name}": value.encode() for name, value in told.items() if value}
