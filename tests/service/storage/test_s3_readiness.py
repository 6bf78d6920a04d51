"""Whether a service says that it is ready while its bucket is there, is away, and is there again."""

import pytest

from cmsfs.service.server import health
from tests.support import faults, s3_server

pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing"),
]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def plan(s3):
    """What is asked of the bucket's server."""
    found = faults.Plan()
    async with faults.running("127.0.0.1", int(s3.url.rpartition(":")[2]), found) as relay:
        found.url = f"http://127.0.0.1:{relay.port}"
        yield found


@pytest.fixture
def blobs_url(s3, plan, monkeypatch, request):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", plan.url)
    return s3_server.place(request.node.name)


async def test_it_is_ready_while_the_bucket_is_there(api, s3, plan, monkeypatch, expect_log):
    expect_log("not ready: the contents cannot be reached")

    async def ask(path="/readyz"):
        return (await api.http.get(f"http://service.test{path}", headers={"authorization": ""})).status_code

    before = len(plan.requests)
    for _ in range(5):
        assert await ask() == 200
    assert plan.requests[before:] == [("HEAD", plan.requests[-1][1])]
    monkeypatch.setattr(health, "REACHED_SECONDS", 0.0)
    monkeypatch.setattr(health, "UNREACHED_SECONDS", 0.0)
    s3.stop()
    try:
        assert await ask() == 503
        assert await ask("/healthz") == 200
    finally:
        s3.start()
    assert await ask() == 200
    # It says that it is too busy, and is not asked again at once.
    plan.add(faults.Answer(503, {"Retry-After": "1"}), method="HEAD")
    before = len(plan.requests)
    assert await ask() == 503
    assert len(plan.requests) == before + 1
