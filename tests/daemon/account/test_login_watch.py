"""A login that is refused, and what tells the drive of a new one."""

import pytest
import trio
from trio.testing import MockClock

from cmsfs import config, errors
from cmsfs.auth import refusals
from cmsfs.replica import kv_store
from daemon.account.login_watch import LoginWatch
from daemon.core.health import Health, HealthState
from tests.support.daemon_drive import Remote, Starting
from tests.support.network import Network

URL = "https://service.test"


@pytest.fixture
def settings() -> config.Settings:
    """Those of an account at a server: the embedded service's users come and go with it."""
    return config.Settings(
        profile="server", base_url=URL, upload_url=URL, auth_url=URL, settle_seconds=0, network_seconds=5
    )


class Service:
    """Refuses the login until there is a new one."""

    def __init__(self) -> None:
        self.is_mended = False
        self.asked = 0

    async def probe(self) -> None:
        self.asked += 1
        if not self.is_mended:
            raise errors.NeedsLogin("log in")


async def _long_refused(service: Service, nursery: trio.Nursery, settings: config.Settings) -> Health:
    health = Health()
    nursery.start_soon(health.run, service.probe)
    nursery.start_soon(LoginWatch(settings, health).run)
    health.failed(errors.NeedsLogin("log in"))
    await trio.sleep(600)
    assert health.state is HealthState.UNAUTHORISED
    return health


@pytest.mark.parametrize("changed", ["token", "lock", "configuration"])
async def test_a_new_login_is_noticed_within_seconds(
    nursery: trio.Nursery, autojump_clock: MockClock, changed: str
) -> None:
    settings = config.Settings()
    settings.paths.ensure()
    config.config_file().parent.mkdir(parents=True, exist_ok=True)
    files = {
        "token": settings.paths.token,
        "lock": settings.paths.token_lock,
        "configuration": config.config_file(),
    }
    service = Service()
    health = await _long_refused(service, nursery, settings)
    service.is_mended = True
    files[changed].write_text("")
    with trio.fail_after(3):
        await health.reachable()


async def test_offline_start_with_other_login_sends_nothing(
    starting: Starting, other: Remote, network: Network
) -> None:
    """Whose it is, its tokens need not say."""
    async with starting() as drive:
        await drive.names()
        owner = kv_store.get(drive.db, kv_store.OWNER)
        assert owner
        await drive.db.write(lambda conn: kv_store.put(conn, kv_store.OWNER, "another"))
    network.is_down = True
    async with starting() as drive:
        await drive.write("f", b"what another has changed")
        network.is_down = False
        with trio.fail_after(20):
            while not drive.agents.health.is_refused:
                await drive.agents.health.changed()
        assert drive.agents.health.reason == refusals.ANOTHER
        assert network.count("POST", "/files/content") == 0
        await drive.db.write(lambda conn: kv_store.put(conn, kv_store.OWNER, owner))
        drive.agents.health.suspect()
        await drive.sync()
        assert await other.paths() == ["f"]


async def test_while_nothing_changes_the_service_is_asked_seldom(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    service = Service()
    await _long_refused(service, nursery, config.Settings())
    before = service.asked
    await trio.sleep(600)
    assert service.asked - before < 40
