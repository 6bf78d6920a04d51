"""A drive over a service that offers the operations of its specification and no others."""

import pytest
import trio

from cmsfs import config
from cmsfs.client.transport import embedded
from cmsfs.service.server import app
from cmsfs.service.storage.store import Store
from tests.support import errno_probe
from tests.support.network import Network
from tests.support.specified_service import REFUSALS, SpecifiedService


@pytest.fixture(params=["unknown"])
def refusal(request: pytest.FixtureRequest) -> str:
    """How unsupported operations are refused (`REFUSALS`)."""
    return str(request.param)


@pytest.fixture
async def specified(service: Store, nursery: trio.Nursery, refusal: str) -> SpecifiedService:
    inner = embedded.EmbeddedTransport(app.build(service), nursery)
    return SpecifiedService(inner, REFUSALS[refusal])


@pytest.fixture
async def network(specified: SpecifiedService) -> Network:
    return Network(specified)


@pytest.fixture
def settings() -> config.Settings:
    url = errno_probe.URL
    return config.Settings(
        settle_seconds=0,
        network_seconds=5,
        shared="root",
        profile="specification",
        base_url=f"{url}/2.0",
        upload_url=f"{url}/api/2.0",
        auth_url=url,
    )
