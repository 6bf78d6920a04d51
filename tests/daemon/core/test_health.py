"""Health: what one failure means, and how recovery is noticed."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from cmsfs import errors, sqlite
from daemon.core.health import Health, HealthState
from daemon.systemd import SystemdNotifier

OPS = """
    INSERT INTO op (ino, kind, state, not_before)
    VALUES (1, 'move', 'ready', 0), (1, 'touch', 'running', 0), (1, 'upload', 'held', 0)
"""


class Service:
    """Answers a probe, or fails as it is told to."""

    def __init__(self) -> None:
        self.failure: errors.RemoteError | None = None
        self.probes = 0

    async def probe(self) -> None:
        self.probes += 1
        if self.failure is not None:
            raise self.failure


async def until(health: Health, state: HealthState) -> None:
    with trio.fail_after(100):
        while health.state is not state:
            await health.changed()


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def health(service: Service, nursery: trio.Nursery) -> Health:
    made = Health()
    nursery.start_soon(made.run, service.probe)
    return made


async def test_successful_request_is_healthy(health: Health) -> None:
    assert (health.state, health.is_online, health.can_ask) == (HealthState.STARTING, False, True)
    with health.request("poll"):
        pass
    assert health.is_online
    assert health.requests["poll"] == 1


async def test_one_broken_connection_is_no_outage(
    health: Health, service: Service, autojump_clock: MockClock
) -> None:
    with pytest.raises(errors.Offline), health.request("read"):
        raise errors.Offline("it broke")
    await trio.sleep(1)
    assert (health.state, service.probes) == (HealthState.ONLINE, 1)


async def test_outage_is_reported_and_recovers(
    health: Health, service: Service, autojump_clock: MockClock
) -> None:
    service.failure = errors.Offline("nobody listens")
    health.failed(service.failure)
    await until(health, HealthState.OFFLINE)
    assert not health.can_ask
    with pytest.raises(OSError, match="Network is down"):
        health.check()
    await trio.sleep(300)
    assert 5 < service.probes < 40
    service.failure = None
    began = trio.current_time()
    await health.reachable()
    assert trio.current_time() - began < 60
    health.check()


async def test_refused_credentials_are_another_matter(
    health: Health, service: Service, autojump_clock: MockClock
) -> None:
    service.failure = errors.OAuthError("invalid_client", "no such client")
    health.failed(service.failure)
    assert health.state is HealthState.UNAUTHORISED
    with pytest.raises(PermissionError):
        health.check()
    service.failure = None
    await until(health, HealthState.ONLINE)


async def test_token_refused_after_an_outage_is_soon_tried_again(
    health: Health, service: Service, autojump_clock: MockClock
) -> None:
    """Nobody has to log in because a machine slept between the renewal of its token and the request."""
    service.failure = errors.Offline("nobody listens")
    health.failed(service.failure)
    await trio.sleep(300)
    service.failure = errors.Unauthorized(401, "unauthorized")
    await until(health, HealthState.UNAUTHORISED)
    service.failure = None
    began = trio.current_time()
    await until(health, HealthState.ONLINE)
    assert trio.current_time() - began < 3


async def test_failing_service_is_degraded(
    health: Health, service: Service, autojump_clock: MockClock
) -> None:
    service.failure = errors.ServerError(503, "unavailable")
    health.failed(service.failure)
    await until(health, HealthState.DEGRADED)
    assert health.can_ask
    assert not health.is_online


@pytest.mark.parametrize("status", [400, 403, 404, 409, 412, 429])
async def test_a_refusal_of_one_request_is_an_answer(health: Health, status: int) -> None:
    health.failed(errors.api_error_class(status)(status))
    assert health.is_online


async def test_unanswered_probe_means_offline(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    silent = Health()
    nursery.start_soon(silent.run, trio.sleep_forever)
    silent.suspect()
    await until(silent, HealthState.OFFLINE)


async def test_systemd_hears_of_ready_state_life_and_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    db: sqlite.Database,
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "4000000")
        watchdog, health = SystemdNotifier(), Health()
        nursery.start_soon(watchdog.run, health, db)
        watchdog.ready()
        await trio.sleep(5)
        health.answered()
        await trio.sleep(0.1)
        # At once: while a thread works, this clock has nothing to wait for, and jumps for ever.
        with closing(sqlite3.connect(tmp_path / "replica.db")) as conn:
            conn.executescript(OPS)
        await trio.sleep(5)
        watchdog.stopping(20)
        heard = []
        while True:
            try:
                heard.append(manager.recv(1000).decode())
            except BlockingIOError:
                break
    assert heard[0] == "READY=1"
    assert heard.count("WATCHDOG=1") >= 3
    assert [line for line in heard if line.startswith("STATUS=")] == [
        "STATUS=starting",
        "STATUS=online",
        "STATUS=online, 2 changes to upload, 1 held",
    ]
    assert heard[-1] == "STOPPING=1\nSTATUS=uploading pending changes\nEXTEND_TIMEOUT_USEC=20000000"


async def test_without_systemd_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    SystemdNotifier().ready()
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/socket")
    SystemdNotifier().ready()


@pytest.mark.timeout(20)
async def test_a_manager_that_does_not_read_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        for _ in range(2000):  # more than any queue of datagrams holds
            SystemdNotifier().ready()
        assert manager.recv(1000) == b"READY=1"


async def test_person_who_asks_has_service_looked_for(service: Service, autojump_clock: MockClock) -> None:
    """A probe is half a minute away by then; who asks for the status wants to know now."""
    health = Health()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(health.run, service.probe)
        service.failure = errors.Offline("no route")
        health.failed(service.failure)
        await trio.sleep(600)
        service.failure, before = None, trio.current_time()
        health.asked_for()
        await until(health, HealthState.ONLINE)
        assert trio.current_time() - before <= 1.0
        probes = service.probes
        health.asked_for()
        await trio.sleep(600)
        assert service.probes == probes
        nursery.cancel_scope.cancel()
