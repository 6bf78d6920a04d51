"""Nobody writes while a process that found itself alone sweeps, though it was not alone after all.

A server that is restarted, and a network that breaks, take from a process the lock that says that it has the
database open, and whoever starts in that moment finds nobody.
"""

from contextlib import closing, contextmanager

import pytest
import trio
import trio.testing

from cmsfs.service.storage import store
from cmsfs.service.storage.postgres import connection, presence
from tests.service.conftest import UPLOADS

SECONDS = 60
_LISTENERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'cmsfs listener'"
)


@pytest.fixture
def url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
async def service(root, url, fill, expect_log):
    expect_log("out of reach")
    async with store.open_store(root, database_url=url) as opened:
        await fill(opened)
        yield opened


@contextmanager
def _alone(url):
    """Another process, which has the database to itself: the one there has just lost its connection."""
    with closing(connection.connect(url)) as conn:
        lock = f"SELECT pg_try_advisory_lock({presence.LOCKS}, {presence.OPEN}) AS got"
        while not conn.execute(lock).fetchone()["got"]:
            conn.execute(_LISTENERS)
        yield


async def test_a_write_waits_until_whoever_is_alone_has_swept(service, url):
    done = trio.Event()

    async def write():
        await service.write(lambda conn: None)
        done.set()

    async with trio.open_nursery() as nursery:
        with _alone(url):
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked(0.3)
            assert not done.is_set()
        with trio.fail_after(SECONDS):
            await done.wait()


async def test_what_was_swept_before_it_was_named_is_sent_again(api, service, url, expect_log):
    expect_log("the contents are out of reach: the received content was swept")
    body, headers = api.form({"name": "new", "parent": {"id": "0"}}, b"precious")
    answers = []

    async def send():
        answers.append(await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers))

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            with _alone(url):
                nursery.start_soon(send)
                while not list(service.blobs.stored("42")):  # noqa: ASYNC110  (its SHA-1 begins so)
                    await trio.sleep(0.01)
                assert await service.db.query(service.blobs.sweep) == 1
        await send()
    assert [one.status_code for one in answers] == [503, 201]
    assert answers[0].headers["retry-after"]
    file = answers[1].json()["entries"][0]
    assert await api.bytes(file["id"]) == b"precious"
