"""What three processes are asked at once, on one database of PostgreSQL, is judged as if by one."""

import json
import os
from contextlib import AsyncExitStack, closing

import httpx
import pytest
import trio

from cmsfs.models.enterprise import tokens
from cmsfs.service.oauth import access_tokens, codes
from cmsfs.service.storage.postgres import connection, presence
from cmsfs.service.storage.shared import attempt_limits, moments
from tests.service.server.test_processes import ENTERPRISE, SECONDS
from tests.support.server_process import ServerProcess

SIZE = 10_000
ROOM = 10
QUOTA = ROOM * SIZE + 500
UPLOADERS = 20
ROUNDS = 4
APP = {"client_id": "tests", "client_secret": "a secret of the tests"}
MORE = f"""
[[users]]
login = "bob@example.com"
name = "Bob"
space_amount = {QUOTA}
"""
BACK = "http://127.0.0.1/callback"


@pytest.fixture(scope="module")
def url(postgres):
    made = postgres.empty()
    yield made
    postgres.drop(made)


@pytest.fixture(scope="module")
def servers(url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("races")
    said = ENTERPRISE.replace("[[apps]]", f"{MORE}[[apps]]").replace(
        'grants = ["client_credentials"]',
        f'grants = ["client_credentials", "authorization_code"]\nredirect_uris = ["{BACK}"]',
    )
    (folder / "enterprise.toml").write_text(said)
    options = ("--database", url, "--enterprise-file", folder / "enterprise.toml")
    made = [
        ServerProcess(folder / "data", *options, log=folder / f"log {number}", env=os.environ.copy())
        for number in range(3)
    ]
    for server in made:
        server.start()
    yield made
    for server in made:
        assert server.stop() == 0


class Callers:
    """One person's clients, one at each process."""

    def __init__(self, clients):
        self.clients = clients

    async def at_once(self, count, ask):
        """The answers to `ask(client, number)`, asked so often at the same time."""
        answers = [None] * count

        async def run(number):
            answers[number] = await ask(self.clients[number % len(self.clients)], number)

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(run, number)
        return answers


@pytest.fixture
async def callers_of(servers):
    async with AsyncExitStack() as stack:

        async def make(login):
            made = []
            for server in servers:
                client = httpx.AsyncClient(base_url=f"{server.url}/2.0", timeout=SECONDS)
                made.append(await stack.enter_async_context(client))
                form = APP | {"grant_type": "client_credentials", "box_subject_type": "user"}
                form["box_subject_id"] = server.ready_info["user_ids"][login]
                answer = await client.post(f"{server.url}/oauth2/token", data=form)
                client.headers["authorization"] = f"Bearer {answer.json()['access_token']}"
            return Callers(made)

        yield make


@pytest.fixture
async def ann(callers_of):
    return await callers_of("ann@example.com")


@pytest.fixture
def at_database(url):
    """Run a transaction there, as a process of the service does."""

    def run(txn):
        with closing(connection.connect(url)) as conn:
            conn.command(f"BEGIN; SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})")
            made = txn(conn)
            conn.command("COMMIT")
            return made

    return run


def statuses(answers):
    return sorted(answer.status_code for answer in answers)


async def upload(client, name, size):
    attributes = json.dumps({"name": name, "parent": {"id": "0"}})
    url = str(client.base_url).replace("/2.0", "/api/2.0")
    files = {"attributes": (None, attributes), "file": (name, os.urandom(size))}
    return await client.post(f"{url}files/content", files=files)


async def test_a_quota_holds_and_is_used_up(callers_of):
    bob = await callers_of("bob@example.com")
    answers = await bob.at_once(UPLOADERS, lambda client, number: upload(client, f"file {number}", SIZE))
    assert statuses(answers) == [201] * ROOM + [403] * (UPLOADERS - ROOM)
    for client in bob.clients:
        assert (await client.get("/users/me")).json()["space_used"] == ROOM * SIZE
    # Of what is left everything can be had, by one of many.
    left = QUOTA - ROOM * SIZE
    answers = await bob.at_once(6, lambda client, number: upload(client, f"last {number}", left))
    assert statuses(answers) == [201] + [403] * 5
    refused = [answer.json()["code"] for answer in answers if answer.status_code == 403]
    assert set(refused) == {"storage_limit_exceeded"}
    assert (await bob.clients[0].get("/users/me")).json()["space_used"] == QUOTA
    # What is removed at one process is room at the others.
    one = next(answer for answer in answers if answer.status_code == 201).json()["entries"][0]["id"]
    await bob.clients[0].delete(f"/files/{one}")
    await bob.clients[1].delete(f"/files/{one}/trash")
    assert (await upload(bob.clients[2], "in its place", left)).status_code == 201


async def redeemed(ann, form):
    """The answers to a form of the token endpoint at all processes at once, and of what came of it."""

    async def ask(client, _):
        return await client.post(str(client.base_url).replace("/2.0/", "/oauth2/token"), data=APP | form)

    answers = await ann.at_once(6, ask)
    assert statuses(answers) == [200] + [400] * 5
    assert {one.json()["error"] for one in answers if one.status_code == 400} == {"invalid_grant"}
    (pair,) = [one.json() for one in answers if one.status_code == 200]
    headers = {"authorization": f"Bearer {pair['access_token']}"}
    return [(await client.get("/users/me", headers=headers)).status_code for client in ann.clients]


async def test_a_code_is_redeemed_once(servers, ann, at_database):
    user = int(servers[0].ready_info["user_ids"]["ann@example.com"])
    for _ in range(ROUNDS):
        code = at_database(
            lambda conn: codes.make(
                *(conn, "tests", user),
                redirect_uri=BACK,
                granted=None,
                challenge=None,
                now=moments.StoreClock().now(),
            )
        )
        form = {"grant_type": tokens.AUTHORIZATION_CODE, "code": code, "redirect_uri": BACK}
        # Whoever came later may have stolen it.
        assert await redeemed(ann, form) == [401] * 3


async def test_a_refresh_token_is_good_once(servers, ann, at_database):
    user = int(servers[0].ready_info["user_ids"]["ann@example.com"])

    def begin(conn):
        now = moments.StoreClock().now()
        family = access_tokens.begin_family(conn, "tests", user, granted=None, now=now)
        return access_tokens.issue_pair(conn, family, now=now)

    for _ in range(ROUNDS):
        form = {"grant_type": tokens.REFRESH_TOKEN, "refresh_token": at_database(begin)["refresh_token"]}
        assert await redeemed(ann, form) == [401] * 3


async def test_wrong_secrets_count_together(ann):
    form = APP | {"grant_type": "client_credentials", "client_secret": "wrong"}

    async def guess(client, _):
        return await client.post(str(client.base_url).replace("/2.0/", "/oauth2/token"), data=form)

    answers = await ann.at_once(3 * attempt_limits.FREE_GUESSES, guess)
    judged = [one for one in answers if one.status_code == 400]
    # The wait begins with a second, after which one more is judged.
    assert attempt_limits.FREE_GUESSES <= len(judged) <= attempt_limits.FREE_GUESSES + 4
    assert all(
        one.status_code == 429 and int(one.headers["retry-after"]) > 0 for one in answers if one not in judged
    )


@pytest.mark.parametrize("kind", ["folder", "file"])
async def test_a_name_is_given_once(ann, kind):
    async def make(client, name):
        if kind == "file":
            return await upload(client, name, 10)
        return await client.post("/folders", json={"name": name, "parent": {"id": "0"}})

    for number in range(ROUNDS):
        name = f"{kind} {number}"
        answers = await ann.at_once(9, lambda client, _, name=name: make(client, name))
        assert statuses(answers) == [201] + [409] * 8
    entries = (await ann.clients[0].get("/folders/0/items", params={"limit": 1000})).json()["entries"]
    assert len([one for one in entries if one["name"].startswith(f"{kind} ")]) == ROUNDS


async def test_one_puts_into_the_trash_and_one_takes_out(ann):
    made = (await upload(ann.clients[0], "wanted.txt", 10)).json()["entries"][0]
    at = (await ann.clients[0].get("/events", params={"stream_position": "now"})).json()
    for _ in range(ROUNDS):
        answers = await ann.at_once(6, lambda client, _: client.delete(f"/files/{made['id']}"))
        assert statuses(answers)[0] == 204 and statuses(answers)[1] >= 400
        answers = await ann.at_once(6, lambda client, _: client.post(f"/files/{made['id']}", json={}))
        assert statuses(answers)[0] == 201 and statuses(answers)[1] >= 400
    # Both at once: either comes first, and what is told is what was done.
    answers = await ann.at_once(
        6,
        lambda client, number: (
            client.delete(f"/files/{made['id']}")
            if number % 2
            else client.post(f"/files/{made['id']}", json={})
        ),
    )
    page = {"stream_position": at["next_stream_position"], "limit": 500}
    told = [one["event_type"] for one in (await ann.clients[1].get("/events", params=page)).json()["entries"]]
    done = [one.status_code for one in answers]
    assert told.count("ITEM_TRASH") == ROUNDS + done.count(204)
    assert told.count("ITEM_UNDELETE_VIA_TRASH") == ROUNDS + done.count(201)
    assert told == (["ITEM_TRASH", "ITEM_UNDELETE_VIA_TRASH"] * len(told))[: len(told)]
    found = {(await client.get(f"/files/{made['id']}")).json()["item_status"] for client in ann.clients}
    assert found == ({"trashed"} if len(told) % 2 else {"active"})
