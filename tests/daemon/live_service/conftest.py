"""A drive of the profile `box` on a service that behaves like the live one."""

import pytest
import trio

from cmsfs import config
from cmsfs.client.transport import embedded
from cmsfs.service.server import app
from cmsfs.service.storage.store import Store
from tests.support import errno_probe
from tests.support.live_service import LiveService
from tests.support.network import Network


@pytest.fixture
async def live(service: Store, nursery: trio.Nursery) -> LiveService:
    return LiveService(embedded.EmbeddedTransport(app.build(service), nursery))


@pytest.fixture
async def network(live: LiveService) -> Network:
    return Network(live)


@pytest.fixture
def settings() -> config.Settings:
    url = errno_probe.URL
    return config.Settings(
        settle_seconds=0,
        network_seconds=5,
        shared="root",
        profile="box",
        base_url=f"{url}/2.0",
        upload_url=f"{url}/api/2.0",
        auth_url=url,
    )
