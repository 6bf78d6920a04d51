"""How much a user may ask for."""

import httpx
import pytest

from cmsfs.service import problems
from cmsfs.service.server import app, rate_limits


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def take(clock):
    """`take(method, path, user=1)`: the seconds to wait, 0 if it was let through."""
    found = rate_limits.RateLimits(clock=clock)

    def run(method, path, user=1, enterprise=1):
        try:
            found.take(method, path, user=user, enterprise=enterprise)
        except problems.Refused as refused:
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            return int(refused.headers["Retry-After"])
        return 0

    run.limits = found  # type: ignore[attr-defined]
    return run


def test_search_rate_limits(take, clock):
    for _ in range(6):
        assert take("GET", "/2.0/search") == 0
    assert take("GET", "/2.0/search") == 1
    done = 6
    while clock.now < 59:
        clock.now += 0.25
        done += take("GET", "/2.0/search") == 0
    # Sixty at once, and one more in each second that has passed.
    assert 115 <= done <= 120


def test_searches_of_an_enterprise_are_twelve_a_second(take):
    assert [take("GET", "/2.0/search", user=one % 3) for one in range(13)] == [0] * 12 + [1]
    assert take("GET", "/api/2.0/search", user=9, enterprise=2) == 0


def test_uploads_are_240_a_minute(take):
    paths = ["/api/2.0/files/content", "/2.0/files/1/content", "/api/2.0/files/upload_sessions/AB/commit"]
    assert [take("POST", paths[one % 3]) for one in range(241)] == [0] * 240 + [1]
    assert take("GET", "/2.0/files/1/content") == 0
    assert take("PUT", "/api/2.0/files/upload_sessions/AB") == 0


def test_call_rate_limit_per_user(take, clock):
    assert [take("GET", "/2.0/users/me") for _ in range(1001)] == [0] * 1000 + [1]
    assert take("GET", "/2.0/users/me", user=2) == 0
    clock.now += 0.061
    assert [take("GET", "/2.0/users/me") for _ in range(2)] == [0, 1]


def test_what_was_refused_costs_nothing(take, clock):
    for _ in range(6):
        take("GET", "/2.0/search")
    for _ in range(2000):
        assert take("GET", "/2.0/search") == 1
    clock.now += 1
    assert take("GET", "/2.0/search") == 0


def test_full_buckets_are_forgotten(take, clock):
    for user in range(1000):
        take("GET", "/2.0/users/me", user=user)
    assert len(take.limits) == 1000
    clock.now += 61
    for user in range(1000, 1600):
        take("GET", "/2.0/users/me", user=user)
    assert len(take.limits) <= 600


def test_there_are_never_too_many(take, monkeypatch):
    monkeypatch.setattr(rate_limits, "MAX_BUCKETS", 50)
    for user in range(1000):
        assert take("GET", "/2.0/users/me", user=user) == 0
    assert len(take.limits) <= 51


async def test_the_service_refuses_one_too_many(api, uwe, service, clock):
    rates = rate_limits.RateLimits(
        (rate_limits.Rule("call", 2, 60), rate_limits.Rule("upload", 1, 60)), clock=clock
    )
    transport = httpx.ASGITransport(app.build(service, rates=rates))
    async with httpx.AsyncClient(transport=transport, base_url="http://x/2.0") as client:
        headers = {"authorization": api.http.headers["authorization"]}
        for _ in range(2):
            assert (await client.get("/users/me", headers=headers)).status_code == 200
        answer = await client.get("/users/me", headers=headers)
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "30"
        assert answer.json()["code"] == "rate_limit_exceeded"
        assert answer.json()["type"] == "error"
        other = {"authorization": uwe.http.headers["authorization"]}
        assert (await client.get("/users/me", headers=other)).status_code == 200
        clock.now += 60
        body, more = api.form({"name": "a", "parent": {"id": "0"}}, b"x")
        statuses = [
            (await client.post("/files/content", content=body, headers=headers | more)).status_code
            for _ in range(2)
        ]
        assert statuses == [201, 429]
