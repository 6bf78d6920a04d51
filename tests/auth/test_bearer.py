"""The bearer token: when it is fetched, and that it is fetched once."""

import httpx
import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.auth import bearer, grants
from cmsfs.client import session
from cmsfs.client.transport import retry
from cmsfs.models.enterprise import tokens

URL = "https://service.test"


class Source:
    """Hands out tokens t1, t2, …; raises what it is given first."""

    def __init__(self, *, expires_in=3600, failures=()):
        self.fetched = 0
        self._expires_in = expires_in
        self._failures = list(failures)
        self.go_on = trio.Event()
        self.go_on.set()

    async def __call__(self):
        self.fetched += 1
        number = self.fetched
        await self.go_on.wait()
        if self._failures:
            raise self._failures.pop(0)
        return tokens.Token(access_token=f"t{number}", expires_in=self._expires_in)


class Service(httpx.AsyncBaseTransport):
    """Answers users, and 401 to tokens it does not accept."""

    def __init__(self, *refused):
        self.heard = []
        self.refused = {f"Bearer {token}" for token in refused}

    async def handle_async_request(self, request):
        await trio.lowlevel.checkpoint()
        self.heard.append(request.headers["authorization"])
        if self.heard[-1] in self.refused:
            return httpx.Response(401, headers={"www-authenticate": "Bearer"})
        return httpx.Response(200, json={"id": "7", "type": "user"})


def client_of(service, source):
    return session.open_client(
        session.ServiceEndpoints.of_server(URL),
        transport=service,
        auth=bearer.BearerAuth(source),
        policy=retry.Policy(attempts=1, connect_attempts=1),
    )


async def all_ask(client, count):
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(client.users.me)


async def test_token_is_fetched_once():
    service, source = Service(), Source()
    async with client_of(service, source) as client:
        await all_ask(client, 20)
    assert (source.fetched, set(service.heard)) == (1, {"Bearer t1"})


async def test_token_is_renewed_a_minute_early(autojump_clock):
    service, source = Service(), Source(expires_in=3600)
    async with client_of(service, source) as client:
        await client.users.me()
        await trio.sleep(3539)
        await client.users.me()
        await trio.sleep(1)
        await client.users.me()
    assert service.heard == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_short_token_is_renewed_at_half_life(autojump_clock):
    service, source = Service(), Source(expires_in=20)
    async with client_of(service, source) as client:
        await client.users.me()
        await trio.sleep(9)
        await client.users.me()
        await trio.sleep(2)
        await client.users.me()
    assert service.heard == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_request_is_retried_after_401_with_new_token():
    service, source = Service("t1"), Source()
    async with client_of(service, source) as client:
        assert (await client.users.me()).id == "7"
    assert service.heard == ["Bearer t1", "Bearer t2"]


async def test_many_401s_renew_the_token_once():
    service, source = Service(), Source()
    async with client_of(service, source) as client:
        await client.users.me()
        service.refused.add("Bearer t1")
        await all_ask(client, 20)
    assert source.fetched == 2
    assert service.heard.count("Bearer t2") == 20


async def test_second_401_is_final():
    service, source = Service("t1", "t2"), Source()
    async with client_of(service, source) as client:
        with pytest.raises(errors.Unauthorized):
            await client.users.me()
    assert service.heard == ["Bearer t1", "Bearer t2"]


async def test_failed_fetch_reaches_all_waiters():
    service, source = Service(), Source(failures=[errors.OAuthError("invalid_client")])
    source.go_on = trio.Event()
    heard = []

    async def ask(client):
        with pytest.raises(errors.OAuthError):
            await client.users.me()
        heard.append("refused")

    async with client_of(service, source) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask, client)
            await trio.testing.wait_all_tasks_blocked()
            source.go_on.set()
        assert (len(heard), source.fetched) == (5, 1)
        # Who asks later starts anew.
        await client.users.me()
    assert service.heard == ["Bearer t2"]


async def test_next_waiter_repeats_cancelled_fetch():
    service, source = Service(), Source()
    source.go_on = trio.Event()
    async with client_of(service, source) as client, trio.open_nursery() as nursery:
        cancelled = trio.CancelScope()

        async def impatient():
            with cancelled:
                await client.users.me()

        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(client.users.me)
        await trio.testing.wait_all_tasks_blocked()
        cancelled.cancel()
        source.go_on.set()
    assert service.heard == ["Bearer t2"]


async def test_client_credentials_are_a_source_of_tokens():
    forms = []

    class Endpoint(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            forms.append((await request.aread()).decode())
            return httpx.Response(200, json={"access_token": "t", "expires_in": 60})

    async with session.open_client(session.ServiceEndpoints.of_server(URL), transport=Endpoint()) as client:
        fetch = grants.client_credentials(client, "c", "hush", "enterprise", "11")
        assert (await fetch()).access_token.get_secret_value() == "t"
    assert "box_subject_type=enterprise" in forms[0]
    assert "box_subject_id=11" in forms[0]


async def test_the_token_is_not_shown():
    source = Source()
    auth = bearer.BearerAuth(source)
    async with session.open_client(
        session.ServiceEndpoints.of_server(URL), transport=Service(), auth=auth
    ) as client:
        await client.users.me()
    assert "t1" not in repr(auth)
