"""A whole drive but for the kernel, on an embedded service, with a network that the test can cut.

`service` is the service with one empty account, `other` is somebody else's program working in the same
account, `drive` is ours: every agent of `daemon.app`, built by it, started by the test as far as it needs.
"""

import errno
import functools
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.auth import bearer, grants
from cmsfs.client import session
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.transport import embedded, multipart, retry
from cmsfs.models import base
from cmsfs.models.content import items, metadata, search, uploads
from cmsfs.replica import tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.service.access import calls
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app
from cmsfs.service.storage import store
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon import app as daemon_app
from daemon import local_state
from daemon.core.request_scheduler import RequestScheduler
from tests.support import errno_probe
from tests.support.network import Network
from tests.support.patience import crowding


class Remote:
    """The account as another program sees and changes it."""

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
        """The one item of this name, wherever it is."""
        found = [item for item in await self.everything() if item.name == name]
        assert len(found) == 1, (name, [item.name for item in found])
        return found[0]

    async def read(self, name: str) -> bytes:
        found = await self.find(name)
        if not found.size:  # type: ignore[union-attr]
            return b""
        async with self.client.files.content(found.id) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def everything(self) -> list[items.Item]:
        query = search.Query(query=EVERYTHING, ancestor_folder_ids=["0"], limit=200)
        return [item async for item in self.client.search.entries(query)]

    async def paths(self) -> list[str]:
        """All paths, sorted; folders end in a slash."""
        found = {(item.type, item.id): item for item in await self.everything()}

        def path(item: items.Item) -> str:
            above = found.get(("folder", item.parent.id)) if item.parent else None
            return (path(above) if above else "") + (item.name or "") + ("/" if item.type == "folder" else "")

        return sorted(path(item) for item in found.values())

    async def versions(self, file_id: str) -> int:
        sql = "SELECT count(*) AS n FROM version WHERE file = ?"
        return int(self.store.read(sql, int(file_id))[0]["n"])


class Drive:
    """Our side: `agents` is what `daemon.app` built; calls are those of programs."""

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
        """Write a file anew, as `cat > path` does."""
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
            return await self.fs.read(opened.fh, 0, found.size + 1)
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
        """What `ls` shows."""
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
        """What `cmsfs sync` does."""
        with trio.fail_after(20 * crowding()):
            await self.agents.sync()

    async def poll(self) -> None:
        with trio.fail_after(20 * crowding()):
            await self.agents.pull.poll()


def _source(data: bytes) -> multipart.Source:
    return multipart.BytesSource(data)


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _fill(conn: Connection) -> int:
    enterprise = demo.add_enterprise(conn, "Tests", now=1)
    user = demo.add_user(conn, enterprise, "Ada Tester", "ada@example.com", role="admin", now=1)
    conn.execute(
        "INSERT INTO app (client_id, secret_hash, name, enterprise, service_user) VALUES (?, ?, ?, ?, ?)",
        ("tests", calls.hashed("secret"), "tests", enterprise, user["id"]),
    )
    return int(user["id"])


@asynccontextmanager
async def _client(
    transport: httpx.AsyncBaseTransport, user: int, pace: RequestScheduler | None = None
) -> AsyncIterator[session.Client]:
    endpoints = session.ServiceEndpoints.of_server(errno_probe.URL)
    # No waiting inside the client: what is repeated, and when, is the agents' story here.
    policy = retry.Policy(attempts=2, connect_attempts=1, first_wait=0.0)
    async with session.open_client(endpoints, transport=transport) as anonymous:
        fetch = grants.client_credentials(
            anonymous, "tests", "secret", subject_type="user", subject_id=str(user)
        )
        auth = bearer.BearerAuth(fetch)
        async with session.open_client(
            endpoints, auth=auth, transport=transport, policy=policy, pace=pace
        ) as client:
            yield client


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Store]:
    async with store.open_store(tmp_path / "service") as opened:
        yield opened


@pytest.fixture
async def user(service: Store, request: pytest.FixtureRequest) -> int:
    user = await service.write(_fill)
    if request.node.get_closest_marker("administers"):
        await errno_probe.may_administer(service)
    return user


@pytest.fixture
async def stranger(service: Store, user: int) -> int:
    """Another user of the enterprise."""

    def add(conn: Connection) -> int:
        enterprise = conn.execute("SELECT enterprise FROM user WHERE id = ?", (user,)).fetchone()[0]
        return int(demo.add_user(conn, enterprise, "Ben Tester", "ben@example.com", now=1)["id"])

    return await service.write(add)


@pytest.fixture
async def ben(service: Store, stranger: int, nursery: trio.Nursery) -> AsyncIterator[Remote]:
    """The account of another user of the enterprise."""
    transport = embedded.EmbeddedTransport(app.build(service), nursery)
    async with _client(transport, stranger) as client:
        yield Remote(client, service, stranger)


@pytest.fixture
async def network(service: Store, nursery: trio.Nursery) -> Network:
    return Network(embedded.EmbeddedTransport(app.build(service), nursery))


@pytest.fixture
async def other(service: Store, user: int, nursery: trio.Nursery) -> AsyncIterator[Remote]:
    transport = embedded.EmbeddedTransport(app.build(service), nursery)
    async with _client(transport, user) as client:
        yield Remote(client, service, user)


@pytest.fixture
async def project(other: Remote) -> metadata.Template:
    """A template with a field of each type."""
    return await errno_probe.make_project(other)


@pytest.fixture
def settings() -> config.Settings:
    # What is shared is where it is at the service; what becomes of it elsewhere is in test_shared_names.py.
    return config.Settings(settle_seconds=0, network_seconds=5, shared="root")


Starting = Callable[..., Any]


@pytest.fixture
def starting(network: Network, user: int, settings: config.Settings, tmp_path: Path) -> Starting:
    """`async with starting() as drive`: the agents of a drive; leave and enter again for a restart.

    `paced`: its requests pass its budget.  `others`: settings of its own; another `account` is another drive.
    """

    @asynccontextmanager
    async def start(
        *,
        agents: tuple[str, ...] = ("health", "push", "fs"),
        paced: bool = False,
        **others: Any,
    ) -> AsyncIterator[Drive]:
        wanted = settings.model_copy(update=others)
        wanted.paths.ensure()
        pace = RequestScheduler(config.profile(wanted).limits) if paced else None
        async with (
            _client(network, user, pace) as client,
            local_state.open_state(wanted) as state,
            trio.open_nursery() as nursery,
        ):
            built = daemon_app.Agent(wanted, tmp_path / "mnt", state, client, nursery, pace)
            await built.contact()
            nursery.start_soon(built.notifier.run)
            push = functools.partial(built.account.once_known, built.push.run)
            runs = {"push": push, "fs": built.fs.run, "pull": built.pull.run}
            for name in agents:
                if name == "health":
                    nursery.start_soon(built.health.run, built.account.who)
                else:
                    nursery.start_soon(runs[name])
            yield Drive(built)
            nursery.cancel_scope.cancel()

    return start


@pytest.fixture
async def drive(starting: Starting) -> AsyncIterator[Drive]:
    async with starting() as started:
        yield started
