"""Three processes serve one database on PostgreSQL and one folder of contents."""

import json
import os
import random
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import trio

from tests.support.server_process import ServerProcess

ENTERPRISE = """
[enterprise]
name = "Three"
[[users]]
login = "ann@example.com"
name = "Ann"
role = "admin"
[[apps]]
client_id = "tests"
client_secret = "a secret of the tests"
name = "Tests"
grants = ["client_credentials"]
scopes = ["root_readwrite"]
"""

WRITERS = 20
EACH = 3
SECONDS = 100


@pytest.fixture
def url(postgres):
    made = postgres.empty()
    yield made
    postgres.drop(made)


@pytest.fixture
def servers(url, tmp_path):
    file = tmp_path / "enterprise.toml"
    file.write_text(ENTERPRISE)
    options = ("--database", url, "--enterprise-file", file)
    made = [
        ServerProcess(tmp_path / "data", *options, log=tmp_path / f"log {number}", env=os.environ.copy())
        for number in range(3)
    ]
    for server in made:
        server.start()
    yield made
    for server in made:
        assert server.stop() == 0


@pytest.fixture
async def clients(servers):
    """Callers, one at each process, of one user."""
    async with AsyncExitStack() as stack:
        made = []
        for server in servers:
            client = await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"{server.url}/2.0", timeout=SECONDS, follow_redirects=True)
            )
            form = {
                "grant_type": "client_credentials",
                "client_id": "tests",
                "client_secret": "a secret of the tests",
                "box_subject_type": "user",
                "box_subject_id": server.ready_info["user_ids"]["ann@example.com"],
            }
            answer = await client.post(f"{server.url}/oauth2/token", data=form)
            assert answer.status_code == 200, answer.text
            client.headers["authorization"] = f"Bearer {answer.json()['access_token']}"
            made.append(client)
        yield made


async def upload(client, name, content):
    attributes = json.dumps({"name": name, "parent": {"id": "0"}})
    url = str(client.base_url).replace("/2.0", "/api/2.0")
    files = {"attributes": (None, attributes), "file": (name, content)}
    answer = await client.post(f"{url}files/content", files=files)
    assert answer.status_code == 201, answer.text
    return answer.json()["entries"][0]["id"]


async def test_what_one_process_takes_the_others_have(clients):
    one, *others = clients
    number = await upload(one, "report.txt", b"of one process")
    for client in others:
        entries = (await client.get("/folders/0/items")).json()["entries"]
        assert [entry["name"] for entry in entries] == ["report.txt"]
        assert (await client.get(f"/files/{number}/content")).content == b"of one process"
        found = (await client.get("/search", params={"query": "process"})).json()["entries"]
        assert [entry["id"] for entry in found] == [number]


async def test_a_long_poll_wakes_by_a_change_at_another_process(clients):
    one, two, _ = clients
    at = (await two.get("/events", params={"stream_position": "now"})).json()["next_stream_position"]
    answers = []

    async def wait():
        answers.append(await two.get("/events/wait", params={"stream_position": at}))

    with trio.fail_after(SECONDS / 2):  # it looks by itself after a minute
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await one.post("/folders", json={"name": "news", "parent": {"id": "0"}})
    assert answers[0].json() == {"message": "new_change"}


async def test_every_reader_sees_every_event_in_one_order(clients):
    done = trio.Event()
    seen: list[list[Any]] = [[] for _ in clients]
    start = (await clients[0].get("/events", params={"stream_position": "now"})).json()[
        "next_stream_position"
    ]

    async def write(writer):
        for number in range(EACH):
            client = random.choice(clients)
            body = {"name": f"{writer} {number}", "parent": {"id": "0"}}
            answer = await client.post("/folders", json=body)
            assert answer.status_code == 201, answer.text

    async def read(client, found):
        position = start
        while True:
            is_last = done.is_set()
            page = (await client.get("/events", params={"stream_position": position, "limit": 7})).json()
            found += [(entry["event_id"], entry["source"]["name"]) for entry in page["entries"]]
            position = page["next_stream_position"]
            if is_last and not page["entries"]:
                return

    async with trio.open_nursery() as readers:
        for client, found in zip(clients, seen, strict=True):
            readers.start_soon(read, client, found)
        async with trio.open_nursery() as writers:
            for writer in range(WRITERS):
                writers.start_soon(write, writer)
        done.set()
    assert seen[0] == seen[1] == seen[2]
    names = [name for _, name in seen[0]]
    assert sorted(names) == sorted(
        f"{writer} {number}" for writer in range(WRITERS) for number in range(EACH)
    )
    assert sorted(seen[0]) == seen[0]


def test_a_password_on_the_command_line_is_refused(tmp_path):
    wrong = (
        "postgresql://ann:secret@/x",
        "postgresql:///x?password=secret",
        "mysql://ann@/x",
        "postgresql://.../x",
    )
    for url in wrong:
        server = ServerProcess(tmp_path / "data", "--database", url, log=tmp_path / "log")
        with pytest.raises(AssertionError, match="did not start"):
            server.start()
    said = (tmp_path / "log").read_text()
    assert said.count("PGPASSFILE") == 2
    assert said.count("takes the URL of a PostgreSQL database") == 2
