"""How long somebody who guesses waits, and that nobody else does."""

import httpx
import pytest

from cmsfs.service.server import app, rate_limits
from cmsfs.service.storage.shared import attempt_limits
from tests.service.conftest import SECRET


@pytest.fixture
def clock(service):
    now = [0.0]
    service.attempts.clock = lambda: now[0]
    return now


def test_the_wait_doubles_and_has_an_end():
    now = [0.0]
    found = attempt_limits.AttemptLimits()
    found.clock = lambda: now[0]
    for _ in range(attempt_limits.FREE_GUESSES):
        assert found.take("a", "x") == 0
    waits = []
    for _ in range(15):
        waits.append(found.take("a", "x"))  # it has to wait, so it is not counted
        now[0] += waits[-1]
        assert found.take("a", "x") == 0
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert waits[-1] == attempt_limits.MAX_WAIT_SECONDS


def test_pairs_are_forgotten(monkeypatch):
    monkeypatch.setattr(attempt_limits, "MAX_PAIRS", 10)
    now = [0.0]
    found = attempt_limits.AttemptLimits()
    found.clock = lambda: now[0]
    for number in range(50):
        found.take(f"192.0.2.{number}", "x")
    assert len(found) <= 10
    now[0] = 2 * attempt_limits.REMEMBERED_SECONDS
    found.take("b", "y")
    for _ in range(20):
        found.take("b", "y")
    assert len(found) == 2


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_whose_guesses_count_together(address, network):
    assert attempt_limits.network(address) == network


def _scope(client, forwarded=None):
    headers = [] if forwarded is None else [(b"x-forwarded-for", one.encode()) for one in forwarded]
    return {"client": (client, 1), "headers": headers}


async def test_proxy_address_counts_attempts(service):
    plain = app.Service(service, "http://x")
    assert plain.address(_scope("192.0.2.1", ["203.0.113.9"])) == "192.0.2.1"
    behind = app.Service(service, "http://x", public_url="https://files.example.com")
    assert behind.address(_scope("127.0.0.1", ["203.0.113.9, 198.51.100.2"])) == "198.51.100.2"
    assert behind.address(_scope("127.0.0.1", ["203.0.113.9", "198.51.100.2"])) == "198.51.100.2"
    assert behind.address(_scope("127.0.0.1")) == "127.0.0.1"


async def _through(api, word, file, password):
    header = {"boxapi": f"shared_link=http://service.test/s/{word}&shared_link_password={password}"}
    return (await api.http.get(f"/files/{file}", headers=header)).status_code


async def test_a_links_password_is_not_to_be_guessed(api, uwe, people, clock):
    file = (await api.upload("a.txt", b"x"))["id"]
    terms = {"shared_link": {"access": "open", "password": "open sesame"}}
    url = (await api.ask("PUT", f"/files/{file}?fields=shared_link", json=terms))["shared_link"]["url"]
    word = url.rpartition("/")[2]
    statuses = [await _through(uwe, word, file, f"guess{one}") for one in range(100)]
    assert statuses == [403] * attempt_limits.FREE_GUESSES + [429] * (100 - attempt_limits.FREE_GUESSES)
    assert await _through(uwe, word, file, "open sesame") == 429
    # Nobody else waits, nor does who knew it before.
    ben = await people.add("ben@example.com")
    assert await _through(ben, word, file, "open sesame") == 200
    clock[0] = 1
    assert await _through(uwe, word, file, "open sesame") == 200
    for one in range(100):
        await _through(uwe, word, file, f"guess{one}")
    assert await _through(uwe, word, file, "open sesame") == 200
    # A new password is another one.
    terms["shared_link"]["password"] = "changed"
    await api.ask("PUT", f"/files/{file}", json=terms)
    assert await _through(ben, word, file, "open sesame") == 403


async def test_wrong_app_secrets_wait(api, clock):
    form = {"grant_type": "client_credentials", "box_subject_type": "user", "box_subject_id": str(api.user)}
    for _ in range(attempt_limits.FREE_GUESSES):
        assert await api.refused(form | {"client_secret": "wrong"}) == "invalid_client"
    assert await api.refused(form | {"client_secret": "wrong"}, expect=429) == "rate_limit_exceeded"
    assert (await api.oauth(form | {"client_secret": SECRET}))["access_token"]
    assert await api.refused(form | {"client_id": "nothing"}) == "invalid_client"


async def test_rate_limits_count_requests_for_tokens(service, api):
    limited = app.build(service, "http://service.test", rates=rate_limits.RateLimits(clock=lambda: 0.0))
    form = {"client_id": "tests", "client_secret": SECRET, "grant_type": "nothing"}

    def caller(address):
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(limited, client=(address, 1)), base_url="http://service.test"
        )

    async with caller("192.0.2.1") as one, caller("192.0.2.2") as other:
        for path in ("/oauth2/token", "/oauth2/revoke", "/api/oauth2/token") * 40:
            assert (await one.post(path, data=form)).status_code == 400
        answer = await one.post("/oauth2/token", data=form)
        assert (answer.status_code, answer.json()["error"]) == (429, "rate_limit_exceeded")
        assert int(answer.headers["retry-after"]) >= 1
        # Of another application there, or of this one elsewhere, there may be more.
        assert (await one.post("/oauth2/token", data=form | {"client_id": "other"})).status_code == 400
        assert (await other.post("/oauth2/token", data=form)).status_code == 400
