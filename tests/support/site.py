"""Several processes that serve one PostgreSQL database to many clients; components are killed in turn."""

import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path

import httpx
import trio

from cmsfs.service.storage import blob_check, store
from tests.support import crowd
from tests.support.postgres_server import PostgresServer
from tests.support.server_process import ServerProcess

CLIENT, SECRET = "tests", "a secret of the tests"
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

# The server ends the connection of one commit in so many, and what it was to commit is gone.
_BREAK_COMMITS = """
  CREATE FUNCTION break_commit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF random() < 0.02 THEN
        PERFORM pg_terminate_backend(pg_backend_pid());
      END IF;
      RETURN NULL;
    END $$;
  CREATE CONSTRAINT TRIGGER break_commit AFTER INSERT ON event DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION break_commit()
"""


class Site:
    """The server processes, and the faults injected into them."""

    def __init__(
        self, database: PostgresServer, root: Path, count: int, options: Sequence[str | Path] = ()
    ) -> None:
        self.database = database
        self.url = database.database()
        self.root = root
        file = root / "enterprise.toml"
        file.write_text(ENTERPRISE)
        options = ("--database", self.url, "--enterprise-file", file, *options)
        self.servers = [
            ServerProcess(root / "data", *options, log=root / f"log {number}", env=os.environ.copy())
            for number in range(count)
        ]
        for server in self.servers:
            server.start()

    def user(self, login: str) -> str:
        return str(self.servers[0].ready_info["user_ids"][login])

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def kill(self, server: ServerProcess) -> None:
        server.process.kill()
        server.stop()
        server.start()

    def restart_database(self) -> None:
        self.database.stop()
        self.database.start()

    def break_commits(self) -> None:
        """From now on, some commits fail, whose connection ends without an answer."""
        from cmsfs.service.storage.postgres import connection

        with closing(connection.connect(self.url)) as conn:
            conn.command(_BREAK_COMMITS)

    def kill_while_the_database_restarts(self, server: ServerProcess) -> None:
        """It starts as soon as it can: before the others are back, perhaps."""
        server.process.kill()
        server.stop()
        self.restart_database()
        server.start()

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.root.glob("log *"))


async def _accounts(
    site: Site, tally: crowd.Tally, dice: random.Random, stack: AsyncExitStack
) -> list[crowd.Account]:
    found = []
    for login in LOGINS:
        found.append(crowd.Account(site.urls, await _token(site, login), tally, dice))
        stack.push_async_callback(found[-1].close)
    return found


async def _token(site: Site, login: str) -> str:
    form = {
        "grant_type": "client_credentials",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "box_subject_type": "user",
        "box_subject_id": site.user(login),
    }
    async with httpx.AsyncClient(timeout=crowd.SECONDS) as http:
        answer = await http.post(f"{site.urls[0]}/oauth2/token", data=form)
    return str(answer.json()["access_token"])


async def files(site: Site, login: str, folder: str) -> dict[str, bytes]:
    """Return the files of a folder in a user's root, by name."""
    account = crowd.Account(site.urls, await _token(site, login), crowd.Tally(), random.Random(1))
    entries = (await account.json("/2.0/folders/0/items", limit=1000))["entries"]
    number = next(one["id"] for one in entries if one["name"] == folder)
    found = {}
    for one in (await account.json(f"/2.0/folders/{number}/items", limit=1000))["entries"]:
        found[one["name"]] = await account.content(one["id"])
    await account.close()
    return found


async def _worker(account: crowd.Account, name: str) -> crowd.Worker:
    folders = []
    for part in ("a", "b"):
        body = {"name": f"{name} {part}", "parent": {"id": "0"}}
        folders.append((await account.sure("POST", "/2.0/folders", json=body)).json()["id"])
    return crowd.Worker(account, name, folders)


async def live(
    site: Site,
    *,
    clients: int,
    rounds: int,
    each: int,
    chunked: int,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> crowd.Tally:
    """So many clients work, while in each round something fails; so many answers are between two of them.

    What is to be done `beside` that begins with it; all that is there is judged when it has ended, too.
    """
    tally, dice = crowd.Tally(), random.Random(1)
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
                if beside is not None:
                    working.start_soon(beside)
                await _fail(site, tally, rounds, each)
                done.set()
            followed.set()
        for workers, followers in teams:
            await crowd.judge(workers, followers)
    return tally


async def _fail(site: Site, tally: crowd.Tally, rounds: int, each: int) -> None:
    await trio.to_thread.run_sync(site.break_commits)
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


async def judge_store(site: Site, blobs_url: str | None = None) -> None:
    """Check the idle service: sums are right, and each content is there and complete."""
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
