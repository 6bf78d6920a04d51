"""Deliveries of webhooks while the PostgreSQL server is restarted."""

import functools

import pytest
import trio

from cmsfs.service.storage import store
from cmsfs.service.webhooks import deliveries
from tests.service.webhooks.conftest import NETWORKS, RecordingReceiver
from tests.support import postgres_server

# It has a server of its own.
pytestmark = pytest.mark.embedded


@pytest.fixture
def postgres():
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


class StoppingReceiver(RecordingReceiver):
    """Stops the server before it answers the first delivery."""

    def __init__(self, server):
        super().__init__()
        self._server = server

    async def handle(self, stream):
        if not self.came:
            await trio.to_thread.run_sync(self._server.stop)
        await super().handle(stream)


async def test_a_delivery_whose_result_is_lost_is_made_again(
    postgres, tmp_path, nursery, fill, monkeypatch, expect_log
):
    for said in ("cannot record the result", "was lost", "out of reach", "reachable again"):
        expect_log(said)
    monkeypatch.setattr(deliveries, "CLAIM_SECONDS", 1)
    monkeypatch.setattr(deliveries, "POLL_SECONDS", 0.1)
    receiver = StoppingReceiver(postgres)
    (listener,) = await nursery.start(functools.partial(trio.serve_tcp, receiver.handle, 0, host="127.0.0.1"))
    address = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/in"
    async with store.open_store(tmp_path / "data", database_url=postgres.database()) as opened:
        await fill(opened)
        sql = "INSERT INTO webhook_delivery (app, address, body, due_at, created_at)"
        sql += " VALUES ('tests', ?, '{}', ?, ?)"
        now = opened.now()
        await opened.write(lambda conn: conn.execute(sql, (address, now, now)))
        async with trio.open_nursery() as delivering:
            delivering.start_soon(deliveries.run, opened, NETWORKS)
            assert await receiver.wait() == [{}]
            await trio.to_thread.run_sync(postgres.start)
            assert await receiver.wait(2) == [{}, {}]
            with trio.fail_after(20):
                while True:
                    written = opened.written  # taken first, so that no write is missed
                    if not opened.read("SELECT id FROM webhook_delivery"):
                        break
                    await written.wait()
            delivering.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
