"""A service whose PostgreSQL server is restarted: 503 meanwhile, then it goes on by itself."""

import logging

import httpx
import pytest
import trio
import trio.testing

from cmsfs.service.server import serve
from cmsfs.service.storage import store
from cmsfs.service.storage.postgres import presence
from tests.support import postgres_server


@pytest.fixture
def postgres():
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


async def status(client, url):
    answer = await client.get(url, headers={"authorization": "Bearer none"})
    return answer.status_code, "retry-after" in answer.headers


async def test_a_service_outlives_a_restart_of_its_database(postgres, tmp_path, nursery, caplog, expect_log):
    # What works by itself may meet it as well.
    for said in ("was lost", "reachable again", "out of reach|not ready|usage of this hour|sweeper failed"):
        expect_log(said)
    caplog.set_level(logging.INFO)
    async with store.open_store(tmp_path / "data", database_url=postgres.database()) as opened:
        url = await nursery.start(lambda task_status: serve.serve(opened, port=0, task_status=task_status))
        async with httpx.AsyncClient(timeout=60) as client:
            assert await status(client, f"{url}/readyz") == (200, False)
            await trio.to_thread.run_sync(postgres.stop)
            for _ in range(3):
                assert await status(client, f"{url}/readyz") == (503, True)
                assert await status(client, f"{url}/2.0/users/me") == (503, True)
            with trio.fail_after(30):
                while caplog.text.count("out of reach") < 1:
                    await trio.testing.wait_all_tasks_blocked(0.05)
            await trio.to_thread.run_sync(postgres.start)
            with trio.fail_after(60):
                while (await status(client, f"{url}/readyz"))[0] != 200:
                    await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    assert "Traceback" not in caplog.text
    assert caplog.text.count("the database is reachable again") == 1
    # However many requests met it.
    warned = [one for one in caplog.records if one.name.endswith("problems") and one.levelname == "WARNING"]
    met = [one for one in caplog.records if one.name.endswith("problems") and one.levelname == "INFO"]
    assert len(warned) == 1 and len(met) >= 5
    # However long it takes, that is said once.
    assert caplog.text.count("postgres.database:database.py") <= 4


async def test_a_leader_that_meets_a_lost_database_is_elected_again(
    postgres, tmp_path, monkeypatch, caplog, expect_log
):
    """Its own connection may be lost before the one that elects leaders, or come back after it."""
    for said in ("was lost", "reachable again", "out of reach"):
        expect_log(said)
    monkeypatch.setattr(presence, "_LEADER_POLL_SECONDS", 0.05)
    met, led_again = trio.Event(), trio.Event()
    async with store.open_store(tmp_path / "data", database_url=postgres.database()) as opened:

        async def job():
            if not met.is_set():
                await trio.to_thread.run_sync(postgres.stop)
                met.set()
                opened.read("SELECT 1 AS n")
            led_again.set()

        with trio.fail_after(120):
            async with trio.open_nursery() as leading:
                leading.start_soon(opened.shared.run_as_leader, "indexing", job)
                await met.wait()
                await trio.to_thread.run_sync(postgres.start)
                await led_again.wait()
                leading.cancel_scope.cancel()
            while "reachable again" not in caplog.text:
                await trio.testing.wait_all_tasks_blocked(0.05)
