"""What a load balancer, Prometheus and a log collector see of two processes of one database."""

import math
import os
import re

import httpx
import pytest
from prometheus_client import parser

from tests.service.server.test_processes import ENTERPRISE, SECONDS, upload
from tests.support import patience, postgres_server
from tests.support.server_process import ServerProcess

# Each says itself which engine a store has.
pytestmark = pytest.mark.embedded

_LINE = re.compile(r"method=(\S+) path=(\S+) status=(\d+) .* request=(\S+)")


@pytest.fixture
def database():
    """A server of the test's own: it is stopped."""
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


@pytest.fixture
def servers(database, tmp_path):
    file = tmp_path / "enterprise.toml"
    file.write_text(ENTERPRISE)
    watched = ("--metrics", "0", "--public-url", "http://files.example.com")
    options = ("--database", database.empty(), "--enterprise-file", file, *watched)
    made = [
        ServerProcess(tmp_path / "data", *options, log=tmp_path / f"log {number}", env=os.environ.copy())
        for number in range(2)
    ]
    for server in made:
        server.start()
    yield made
    for server in made:
        assert server.stop() == 0


@pytest.fixture
def lines(tmp_path):
    """`lines(number)`: method, path, status and id of the requests in the log of a process."""
    return lambda number: _LINE.findall((tmp_path / f"log {number}").read_text())


@pytest.fixture
def metrics(tmp_path):
    """`metrics(number)`: what a process tells Prometheus."""

    def scrape(number):
        said = re.search(r"metrics at (\S+)", (tmp_path / f"log {number}").read_text())
        answer = httpx.get(said[1], headers={"accept": "text/plain; version=0.0.4"}, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        families = parser.text_string_to_metric_families(answer.text)
        return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}

    return scrape


async def _callers(servers):
    form = {
        "grant_type": "client_credentials",
        "client_id": "tests",
        "client_secret": "a secret of the tests",
        "box_subject_type": "user",
        "box_subject_id": servers[0].ready_info["user_ids"]["ann@example.com"],
    }
    async with httpx.AsyncClient(timeout=SECONDS) as http:
        token = (await http.post(f"{servers[0].url}/oauth2/token", data=form)).json()["access_token"]
    headers = {"authorization": f"Bearer {token}"}
    return [httpx.AsyncClient(base_url=f"{one.url}/2.0", timeout=SECONDS, headers=headers) for one in servers]


async def test_a_request_is_followed_through_processes(servers, lines, metrics):
    one, other = await _callers(servers)
    async with one, other:
        # The proxy gave one id, and sent the request to the next process when the first did not answer.
        for client in (one, other):
            answer = await client.get("/users/me", headers={"x-request-id": "from-the-proxy"})
            assert answer.headers["x-request-id"] == "from-the-proxy"
        given = [(await client.get("/folders/987654321")) for client in (one, other, one, other)]
        ids = [answer.headers["x-request-id"] for answer in given]
        assert len(set(ids)) == 4
        assert [answer.json()["request_id"] for answer in given] == ids
        await upload(one, "a.bin", b"x" * 1234)
    folder = "/2.0/folders/{id}"
    for number in range(2):
        patience.until(lambda: not metrics(number)["cmsfs_requests_in_progress",])  # noqa: B023
        logged = lines(number)
        assert [one for one in logged if one[3] == "from-the-proxy"] == [
            ("GET", "/2.0/users/me", "200", "from-the-proxy")
        ]
        assert [one for one in logged if one[1] == folder] == [
            ("GET", folder, "404", request) for request in ids[number::2]
        ]
        # Requests are each process's own; what is stored is everybody's.
        found = metrics(number)
        assert found["cmsfs_requests_total", "GET", folder, "404"] == 2
        assert (("cmsfs_requests_total", "POST", "/api/2.0/files/content", "201") in found) is (number == 0)
        assert (found["cmsfs_users",], found["cmsfs_stored_bytes",]) == (2, 1234)  # one is the application's


async def test_all_live_and_none_is_ready_without_the_database(servers, database, metrics):
    def status(server, path):
        answer = httpx.get(f"{server.url}{path}", timeout=SECONDS)
        return answer.status_code, "retry-after" in answer.headers

    for server in servers:
        assert (status(server, "/healthz"), status(server, "/readyz")) == ((200, False), (200, False))
    database.stop()
    try:
        for number, server in enumerate(servers):
            assert status(server, "/readyz") == (503, True)
            assert status(server, "/healthz") == (200, False)
            # What the process knows by itself is told, and nothing that was so before.
            found = metrics(number)
            assert found["process_resident_memory_bytes",] > 1_000_000
            assert found["cmsfs_database_reachable",] == 0
            assert math.isnan(found["cmsfs_users",])
    finally:
        database.start()
    for number, server in enumerate(servers):
        patience.until(lambda: status(server, "/readyz") == (200, False), seconds=60)  # noqa: B023
        found = metrics(number)
        assert (found["cmsfs_database_reachable",], found["cmsfs_users",]) == (1, 2)
