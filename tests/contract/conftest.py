"""The embedded service twice: through its transport, and as a server on a socket.

A test with `client` runs on both, so that neither can deviate from the other unnoticed.  Both are checked
against the public description (tests/support/public_api.py).
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import pytest
import trio

from cmsfs.auth import bearer, grants
from cmsfs.client import session
from cmsfs.client.content.uploads import BytesSource
from cmsfs.client.transport import embedded
from cmsfs.models.base import Reference
from cmsfs.models.content import items, uploads
from cmsfs.service.provisioning import demo
from cmsfs.service.server import app, serve
from cmsfs.service.storage import store as service_store
from tests.support import public_api, recorded

Upload = Callable[..., Awaitable[items.File]]


@dataclass(frozen=True)
class Way:
    """How the service is reached in this run."""

    endpoints: session.ServiceEndpoints
    transport: httpx.AsyncBaseTransport | None


@pytest.fixture(autouse=True)
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[public_api.Exchange]]:
    """Record the exchanges of our client and the service, and check them against the public description."""
    found = recorded.install(monkeypatch)
    yield found
    recorded.conform(found)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[service_store.Store]:
    async with service_store.open_store(tmp_path / "service") as opened:
        yield opened


@pytest.fixture
async def credentials(store: service_store.Store) -> demo.Credentials:
    return await demo.ensure_sample(store)


@pytest.fixture(params=["embedded", "http"])
async def way(request: pytest.FixtureRequest, store: service_store.Store, nursery: trio.Nursery) -> Way:
    if request.param == "embedded":
        transport = embedded.EmbeddedTransport(app.build(store), nursery)
        return Way(session.ServiceEndpoints.of_server("http://service.test"), transport)
    url = await nursery.start(lambda task_status: serve.serve(store, port=0, task_status=task_status))
    return Way(session.ServiceEndpoints.of_server(url), None)


@pytest.fixture
async def anonymous(way: Way) -> AsyncIterator[session.Client]:
    """A client without a token."""
    async with session.open_client(way.endpoints, transport=way.transport) as client:
        yield client


@pytest.fixture
async def client(
    way: Way, anonymous: session.Client, credentials: demo.Credentials
) -> AsyncIterator[session.Client]:
    """The client of the sample's owner."""
    fetch = grants.client_credentials(
        anonymous, credentials.client_id, credentials.client_secret, "user", credentials.user_id
    )
    async with session.open_client(
        way.endpoints, transport=way.transport, auth=bearer.BearerAuth(fetch)
    ) as client:
        yield client


@pytest.fixture
async def upload(client: session.Client) -> Upload:
    """`await upload(name, data, parent="0")`: upload a new file."""

    async def send(name: str, data: bytes = b"content", parent: str = "0", **times: datetime) -> items.File:
        wish = uploads.UploadAttributes(name=name, parent=Reference(id=parent), **times)
        sha1 = hashlib.sha1(data).hexdigest()
        return await client.uploads.new_file(wish, BytesSource(data), sha1=sha1)

    return send
