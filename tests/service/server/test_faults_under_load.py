"""Processes that serve one PostgreSQL database are killed under load, and the database is restarted."""

import os
import random
from contextlib import AsyncExitStack

import httpx
import pytest
import trio

from cmsfs.service.storage import blob_check, store
from tests.support import crowd, postgres_server
from tests.support.server_process import ServerProcess

USERS = 4
LOGINS = [f"user{number}@example.com" for number in range(USERS)]
ENTERPRISE = """
[enterprise]
name = "Many"
[[apps]]
client_id = "tests"
client_secret = "a secret of the tests"
name = "Tests"
grants = ["client_credentials"]
scopes = ["root_readwrite"]
""" + "".join(
    f'[[users]]\nlogin = "{login}"\nname = "{login}"\nrole = "{"user" if number else "admin"}"\n'
    for number, login in enumerate(LOGINS)
)


@pytest.fixture
def database():
    """A server of the test's own: it is restarted."""
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


class Site:
    """The processes, and what happens to them."""

    def __init__(self, database, root, options, count):
        self.database = database
        self.url = database.database()
        self.root = root
        options = ("--database", self.url, *options)
        self.servers = [
            ServerProcess(root / "data", *options, log=root / f"log {number}", env=os.environ.copy())
            for number in range(count)
        ]
        for server in self.servers:
            server.start()

    @property
    def urls(self):
        return [server.url for server in self.servers]

    def stop(self):
        for server in self.servers:
            server.stop()

    def kill(self, server):
        server.process.kill()
        server.stop()
        server.start()

    def restart_database(self):
        self.database.stop()
        self.database.start()

    def kill_while_the_database_restarts(self, server):
        """It starts as soon as it can: before the others are back, perhaps."""
        server.process.kill()
        server.stop()
        self.restart_database()
        server.start()

    def logs(self):
        return "".join(path.read_text() for path in self.root.glob("log *"))


async def _accounts(site, tally, dice, stack):
    found = []
    for login in LOGINS:
        form = {
            "grant_type": "client_credentials",
            "client_id": "tests",
            "client_secret": "a secret of the tests",
            "box_subject_type": "user",
            "box_subject_id": site.servers[0].said["user_ids"][login],
        }
        async with httpx.AsyncClient(timeout=crowd.SECONDS) as http:
            answer = await http.post(f"{site.urls[0]}/oauth2/token", data=form)
        account = crowd.Account(site.urls, answer.json()["access_token"], tally, dice)
        stack.push_async_callback(account.close)
        found.append(account)
    return found


async def _worker(account, name):
    folders = []
    for part in ("a", "b"):
        body = {"name": f"{name} {part}", "parent": {"id": "0"}}
        folders.append((await account.sure("POST", "/2.0/folders", json=body)).json()["id"])
    return crowd.Worker(account, name, folders)


async def live(site, *, clients, rounds, each, chunked, seed=1):
    """So many clients work, while in each round something fails; so many answers are between two."""
    tally, dice = crowd.Tally(), random.Random(seed)
    async with AsyncExitStack() as stack:
        accounts = await _accounts(site, tally, dice, stack)
        teams = []
        for number, account in enumerate(accounts):
            workers = [await _worker(account, f"u{number}w{one}") for one in range(clients // USERS)]
            position = (await account.json("/2.0/events", stream_position="now"))["next_stream_position"]
            teams.append((workers, [crowd.Follower(account, position) for _ in range(2)]))
        done, followed = trio.Event(), trio.Event()
        async with trio.open_nursery() as following:
            for _, followers in teams:
                for follower in followers:
                    following.start_soon(follower.run, followed)
            async with trio.open_nursery() as working:
                for workers, _ in teams:
                    for worker in workers:
                        working.start_soon(worker.run, done)
                for number in range(chunked):
                    working.start_soon(teams[number % USERS][0][0].upload_chunked)
                await _fail(site, tally, dice, rounds, each)
                done.set()
            followed.set()
        for workers, followers in teams:
            await crowd.judge(workers, followers)
    return tally


async def _fail(site, tally, dice, rounds, each):
    for number in range(rounds):
        wanted = tally.acknowledged + each
        while tally.acknowledged < wanted:  # noqa: ASYNC110
            await trio.sleep(0.05)
        server = site.servers[number % len(site.servers)]
        match number % 3:
            case 0:
                await trio.to_thread.run_sync(site.kill, server)
            case 1:
                await trio.to_thread.run_sync(site.restart_database)
            case 2:
                await trio.to_thread.run_sync(site.kill_while_the_database_restarts, server)


async def judge_store(site, blobs_url=None):
    """What is at rest: the sums are right, and each content is there and whole."""
    async with store.open_store(site.root / "data", blobs_url, database_url=site.url) as opened:
        report = await blob_check.BlobCheck(opened, read_all=True, repair=True).run(lambda _: None)
        assert (report.missing, report.damaged) == ([], [])
        wrong = opened.read(
            "SELECT a.login, a.space_used, coalesce(sum(v.size), 0) AS real FROM account AS a"
            " LEFT JOIN item AS i ON i.owner = a.id LEFT JOIN version AS v ON v.file = i.id"
            " GROUP BY a.id, a.login, a.space_used HAVING a.space_used != coalesce(sum(v.size), 0)"
        )
        assert [tuple(row) for row in wrong] == []
        wrong = opened.read(
            "SELECT f.id, f.size FROM item AS f WHERE f.kind = 0 AND f.size != ("
            " SELECT coalesce(sum(i.size), 0) FROM item AS i WHERE i.kind = 1 AND i.status = 0"
            " AND i.path >= f.path||f.id||'/' AND i.path < f.path||f.id||'0')"
        )
        assert [tuple(row) for row in wrong] == []
        halves = opened.read(
            "SELECT i.id FROM item AS i WHERE i.kind = 1 AND NOT EXISTS"
            " (SELECT 1 FROM version AS v WHERE v.id = i.version AND v.file = i.id AND v.sha1 = i.sha1)"
        )
        assert [tuple(row) for row in halves] == []


@pytest.fixture
def enterprise(tmp_path):
    file = tmp_path / "enterprise.toml"
    file.write_text(ENTERPRISE)
    return file


@pytest.mark.timeout(300)
async def test_what_was_acknowledged_outlives_kills_and_restarts(database, enterprise, tmp_path):
    site = Site(database, tmp_path, ("--enterprise-file", enterprise), 2)
    try:
        tally = await live(site, clients=8, rounds=3, each=30, chunked=1)
    finally:
        site.stop()
    assert tally.cut + tally.refused > 0
    assert "a request failed" not in site.logs(), site.logs()
    await judge_store(site)
