"""Processes that serve one PostgreSQL database are killed under load, and the database is restarted."""

import random

import pytest

from tests.support import faults, postgres_server, s3_server, site
from tests.support.relayed import relayed


@pytest.fixture
def database():
    """A server of the test's own: it is restarted."""
    if (why := postgres_server.lacks()) is not None:
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


@pytest.mark.timeout(300)
async def test_what_was_acknowledged_outlives_kills_and_restarts(database, tmp_path):
    made = site.Site(database, tmp_path, 2)
    try:
        tally = await site.live(made, clients=8, rounds=3, each=20, chunked=1)
    finally:
        made.stop()
    assert tally.cut + tally.refused > 0
    assert "a request failed" not in made.logs(), made.logs()
    await site.judge_store(made)


@pytest.fixture
def bucket(tmp_path, monkeypatch, request):
    """The URL of contents on a server that says 503, whether or not it did what it was asked, or nothing.

    Its plan tells how often it did.
    """
    if s3_server.program() is None:
        pytest.skip("juicefs, whose gateway serves S3, is missing")
    pytest.importorskip("obstore")
    dice = random.Random(1)
    fates = [faults.UNAVAILABLE] * 30 + [faults.Answer(503, carried_out=True)] * 10 + [faults.Stall()]
    plan = faults.Plan(lambda method, target: dice.choice(fates) if dice.random() < 0.05 else None)
    folder = tmp_path / "s3"
    folder.mkdir()
    with s3_server.running(folder) as server, relayed(server.port, plan) as port:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield f"s3://{s3_server.BUCKET}/crowd", plan


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_the_same_with_a_bucket_that_fails(database, bucket, tmp_path):
    url, plan = bucket
    made = site.Site(database, tmp_path, 3, ("--blobs", url))
    try:
        tally = await site.live(made, clients=20, rounds=12, each=60, chunked=4)
    finally:
        made.stop()
    assert tally.cut > 0
    assert tally.refused > 0
    assert "a request failed" not in made.logs(), made.logs()
    assert plan.faults > 0
    plan.clear()
    await site.judge_store(made, url)
