"""A receiver of webhooks on this machine, and a caller whose service may deliver to it."""

import ipaddress
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import trio

from cmsfs.service.oauth import clients
from cmsfs.service.server import app
from cmsfs.service.storage import store
from cmsfs.service.webhooks import deliveries
from tests.support import openapi_check

NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
KEYS = {"main": "the main key", "secondary": "the secondary key"}


@dataclass
class RecordingReceiver:
    """Requests received at an address, and its responses: one status per request, then the last one."""

    address: str = ""
    answers: list[bytes] = field(default_factory=lambda: [b"200 OK"])
    connections: int = 0
    came: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    news: trio.Event = field(default_factory=trio.Event)

    async def handle(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")[1:]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        while len(body) < int(headers["content-length"]):
            body += await stream.receive_some()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await stream.send_all(b"HTTP/1.1 " + answer + b"\r\nContent-Length: 0\r\n\r\n")
        self.came.append((headers, body))
        news, self.news = self.news, trio.Event()
        news.set()

    async def wait(self, count: int = 1) -> list[Any]:
        """Wait for so many events and return them."""
        with trio.fail_after(20):
            while len(self.came) < count:
                await self.news.wait()
        return [json.loads(body) for _, body in self.came]


@pytest.fixture
async def receiver(nursery: trio.Nursery) -> RecordingReceiver:
    made = RecordingReceiver()

    async def run(task_status: trio.TaskStatus[list[trio.SocketListener]]) -> None:
        await trio.serve_tcp(made.handle, 0, host="127.0.0.1", task_status=task_status)

    (listener,) = await nursery.start(run)
    made.address = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/in?of=tests"
    return made


@pytest.fixture
async def hooked(api: Any, service: store.Store) -> AsyncIterator[Any]:
    """The administrator, at a service that may deliver to this machine."""
    before = api.http
    inner = app.build(service, "http://service.test", webhook_networks=NETWORKS)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(inner),
        base_url="http://service.test/2.0",
        headers=before.headers,
        event_hooks={"response": [openapi_check.check]},
        follow_redirects=True,
    ) as client:
        api.http = client
        yield api
    api.http = before


@pytest.fixture
async def delivering(service: store.Store, nursery: trio.Nursery) -> None:
    """Deliveries are made, signed with keys."""
    await service.write(lambda conn: clients.set_signature_keys(conn, "tests", **KEYS))
    nursery.start_soon(deliveries.run, service, NETWORKS)


async def hook(caller: Any, item: Any, address: str, *triggers: str, expect: int = 201) -> Any:
    body = {
        "target": {"type": item["type"], "id": item["id"]},
        "address": address,
        "triggers": list(triggers),
    }
    return await caller.ask("POST", "/webhooks", json=body, expect=expect)
