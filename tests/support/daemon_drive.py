"""A drive without the kernel, with the calls of programs, and the same account as another client sees it.

The fixtures of these are in `tests/daemon/conftest.py`.
"""

import errno
import hashlib
import os
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest
import trio

from cmsfs.client import session
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.content.uploads import BytesSource, Source
from cmsfs.models import base
from cmsfs.models.content import items, search, uploads
from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.service.storage.store import Store
from daemon import app as daemon_app
from daemon import upgrade
from tests.support.patience import crowding


class Remote:
    """The account as seen and changed by another client."""

    def __init__(self, client: session.Client, service: Store, user: int) -> None:
        self.client = client
        self.store = service
        self.user = user

    async def folder(self, name: str, parent: str = "0") -> str:
        return (await self.client.folders.create(name, parent)).id

    async def file(self, name: str, data: bytes = b"", parent: str = "0") -> str:
        attributes = uploads.UploadAttributes(name=name, parent=base.Reference(id=parent))
        return (await self.client.uploads.new_file(attributes, _source(data), sha1=_sha1(data))).id

    async def write(self, file_id: str, data: bytes) -> None:
        await self.client.uploads.new_version(file_id, _source(data), sha1=_sha1(data))

    async def find(self, name: str) -> items.Item:
        """Return the only item of this name, in any folder."""
        found = [item for item in await self.everything() if item.name == name]
        assert len(found) == 1, (name, [item.name for item in found])
        return found[0]

    async def find_file(self, name: str) -> items.File:
        found = await self.find(name)
        assert isinstance(found, items.File), found
        return found

    async def details(self, name: str) -> items.File:
        """Return a file with its description and tags."""
        found = await self.client.items.details("file", (await self.find(name)).id)
        assert isinstance(found, items.File), found
        return found

    async def urls(self) -> dict[str, str]:
        """Return the URLs of the account's web links by name."""
        found = [item for item in await self.everything() if isinstance(item, items.WebLink)]
        return {str(item.name): str(item.url) for item in found}

    async def read(self, name: str) -> bytes:
        found = await self.find_file(name)
        if not found.size:
            return b""
        async with self.client.files.content(found.id) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def everything(self) -> list[items.Item]:
        query = search.Query(query=EVERYTHING, ancestor_folder_ids=["0"], limit=200)
        return [item async for item in self.client.search.entries(query)]

    async def paths(self) -> list[str]:
        """Return all paths, sorted; folders end in a slash."""
        found = {(item.type, item.id): item for item in await self.everything()}

        def path(item: items.Item) -> str:
            above = found.get(("folder", item.parent.id)) if item.parent else None
            return (path(above) if above else "") + (item.name or "") + ("/" if item.type == "folder" else "")

        return sorted(path(item) for item in found.values())

    async def versions(self, file_id: str) -> int:
        sql = "SELECT count(*) AS n FROM version WHERE file = ?"
        return int(self.store.read(sql, int(file_id))[0]["n"])


class Drive:
    """A local drive: `agents` is built by `daemon.app`; the methods are calls of programs."""

    def __init__(self, agents: daemon_app.Agent) -> None:
        self.agents = agents
        self.fs = agents.fs
        self.db = agents.state.db
        self.changes: list[Change] = []
        self.changed = trio.Event()
        agents.hub.subscribe(self._note)

    def _note(self, changes: list[Change]) -> None:
        self.changes += changes
        self.changed.set()
        self.changed = trio.Event()

    async def ino(self, path: str) -> Ino:
        found = ROOT
        for name in path.strip("/").split("/"):
            if name:
                if not self.node(found).is_folder:
                    raise NotADirectoryError(errno.ENOTDIR, path)  # as the kernel does
                found = (await self.fs.lookup(found, name)).ino
        return found

    async def place(self, path: str) -> tuple[Ino, str]:
        above, _, name = path.strip("/").rpartition("/")
        parent = await self.ino(above)
        if not self.node(parent).is_folder:
            raise NotADirectoryError(errno.ENOTDIR, path)
        return parent, name

    async def write(self, path: str, data: bytes) -> Ino:
        """Create or overwrite a file, as `cat > path` does."""
        parent, name = await self.place(path)
        node = tree.find_child(self.db, parent, name)
        if node is None:
            opened, made = await self.fs.create(parent, name, 0o644, os.O_WRONLY)
            ino = made.ino
        else:
            ino = node.ino
            opened = await self.fs.open(ino, os.O_WRONLY | os.O_TRUNC)
        await self.fs.write(opened.fh, 0, data)
        await self.fs.flush(opened.fh)
        await self.fs.release(opened.fh)
        return ino

    async def read(self, path: str) -> bytes:
        found = self.fs.getattr(await self.ino(path))
        opened = await self.fs.open(found.ino, os.O_RDONLY)
        try:
            return bytes(await self.fs.read(opened.fh, 0, found.size + 1))
        finally:
            await self.fs.release(opened.fh)

    async def mkdir(self, path: str) -> Ino:
        return (await self.fs.mkdir(*await self.place(path), 0o755)).ino

    async def rename(self, old: str, new: str, flags: int = 0) -> None:
        await self.fs.rename(*await self.place(old), *await self.place(new), flags)

    async def unlink(self, path: str) -> None:
        await self.fs.unlink(*await self.place(path))

    async def rmdir(self, path: str) -> None:
        await self.fs.rmdir(*await self.place(path))

    async def names(self, path: str = "") -> list[str]:
        """Return the sorted names in a folder."""
        fh = await self.fs.opendir(await self.ino(path))
        try:
            found: list[str] = []
            after = 0
            while entries := await self.fs.readdir(fh, after):
                found += [entry.name for entry in entries]
                after = entries[-1].cookie
            return sorted(found)
        finally:
            self.fs.releasedir(fh)

    def node(self, ino: Ino) -> Node:
        node = tree.find(self.db, ino)
        assert node is not None
        return node

    def ops(self) -> list[tuple[str, str, str]]:
        rows = self.db.rows("SELECT kind, state, ino FROM op ORDER BY seq")
        return [(row["kind"], row["state"], tree.path(self.db, row["ino"])) for row in rows]

    async def sync(self) -> None:
        """Sync as `cmsfs sync` does."""
        with trio.fail_after(20 * crowding()):
            await self.agents.sync()

    async def poll(self) -> None:
        with trio.fail_after(20 * crowding()):
            await self.agents.pull.poll()


class Starting(Protocol):
    """`async with starting() as drive` runs a drive's agents; leave and enter again to restart it.

    `paced`: its requests pass the request scheduler.  `given`: the handover of another daemon.  `others`: its
    own settings; a different `account` is a different drive.
    """

    def __call__(
        self,
        *,
        agents: tuple[str, ...] = ...,
        paced: bool = False,
        given: upgrade.Handover | None = None,
        **others: object,
    ) -> AbstractAsyncContextManager[Drive]: ...


def fails(*numbers: int) -> Any:
    """Expect an `OSError` with one of these errnos."""
    return pytest.raises(OSError, check=lambda error: error.errno in numbers)


def _source(data: bytes) -> Source:
    return BytesSource(data)


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
