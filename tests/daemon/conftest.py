"""A whole drive without the kernel, on an embedded service, with a network that the test can cut.

`service` is the service with one empty account, `other` is another client of that account, `drive` is ours:
all agents, built by `daemon.app`, of which the test starts those it needs.
"""

import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.auth import bearer, grants
from cmsfs.client import session
from cmsfs.client.transport import embedded, retry
from cmsfs.models.content import metadata
from cmsfs.service.access import calls
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app
from cmsfs.service.storage import store
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon import app as daemon_app
from daemon import local_state, upgrade
from daemon.core.request_scheduler import RequestScheduler
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network
from tests.support.program import HANG_SECONDS, Daemon


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
    # The client does not retry by itself: retries are the agents' task here.
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
        enterprise = conn.execute("SELECT enterprise FROM account WHERE id = ?", (user,)).fetchone()[0]
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
    # Shared items are in the root, as at the service; test_shared_names.py tests other places.
    return config.Settings(settle_seconds=0, network_seconds=5, shared="root")


@pytest.fixture
def starting(network: Network, user: int, settings: config.Settings, tmp_path: Path) -> Starting:
    @asynccontextmanager
    async def start(
        *,
        agents: tuple[str, ...] = ("health", "push", "fs"),
        paced: bool = False,
        given: upgrade.Handover | None = None,
        **others: object,
    ) -> AsyncIterator[Drive]:
        wanted = settings.model_copy(update=others)
        wanted.paths.ensure()
        pace = RequestScheduler(config.profile(wanted).limits) if paced else None
        async with (
            _client(network, user, pace) as client,
            local_state.open_state(wanted, given.held if given else ()) as state,
            trio.open_nursery() as nursery,
        ):
            built = daemon_app.Agent(wanted, tmp_path / "mnt", state, client, nursery, pace)
            if given is not None:
                built.shown.take_over(given.state["tree"])
            await built.contact(is_shown=False)
            nursery.start_soon(built.notifier.run)
            push = functools.partial(built.account.once_known, built.push.run)
            runs: dict[str, Callable[[], Awaitable[object]]] = {
                "push": push,
                "fs": built.fs.run,
                "pull": built.pull.run,
            }
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


@pytest.fixture
def daemon(private_folders: Path, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "mnt", tmp_path / "log")
    made.mountpoint.mkdir()
    watchdog = threading.Timer(HANG_SECONDS, made.free)
    watchdog.start()
    yield made
    watchdog.cancel()
    watchdog.join()
    made.free()
    log = made.log.read_text() if made.log.exists() else ""
    assert "Traceback" not in log, log
    assert " WARNING " not in log, log
    assert " ERROR " not in log, log
