"""How a client is made."""

import functools
import ssl

import httpx
import pydantic
import pytest
import trio
from starlette.responses import JSONResponse

import cmsfs
from cmsfs import errors
from cmsfs.auth import bearer
from cmsfs.client import capabilities, session
from cmsfs.models.base import UserMini
from cmsfs.models.enterprise import tokens


async def test_every_request_says_who_asks(connect):
    async def handler(request):
        assert request.headers["user-agent"] == f"cmsfs/{cmsfs.__version__}"
        return JSONResponse({"id": "7", "type": "user"})

    client = await connect(handler)
    assert (await client.users.get("7")).id == "7"


async def test_counters_may_be_shared(connect):
    async def handler(request):
        return JSONResponse({"id": "7", "type": "user", "access_token": "t"})

    counters = session.Counters()
    one = await connect(handler, counters=counters)
    other = await connect(handler, counters=counters)
    await one.users.me()
    await other.users.me()
    await other.tokens.request(
        tokens.ClientCredentials(
            client_id="c", client_secret="s", service_subject_type="user", subject_id="7"
        )
    )
    assert counters == {"other": 2, "token": 1}


@pytest.mark.parametrize("given", ["a b+c", "ä/ö?&=#%41", "", "~_-.'\"<>\\"])
async def test_a_query_is_what_httpx_makes_of_it(connect, given):
    """It is put to the address by us (`Wire._request`)."""
    found = []

    async def handler(request):
        found.append(str(request.url))
        assert request.query_params["q"] == given
        return JSONResponse({"id": "7", "type": "user"})

    params = {"q": given, "fields": "id,name"}
    url = "http://service.test/2.0/x"
    await (await connect(handler)).wire.ask(UserMini, "GET", url, params=params)
    assert found == [str(httpx.URL(url, params=params))]


async def test_unreadable_ca_is_a_configuration_error(tmp_path):
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("no certificate")
    for path in (tmp_path / "none.pem", nonsense):
        with pytest.raises(errors.ConfigError, match=str(path)):
            async with session.open_client(session.ServiceEndpoints.of_server("https://x"), ca_file=path):
                pass


def test_tls_is_never_older_than_1_2():
    assert session.tls(None).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_nobody_listening_is_offline():
    async with session.open_client(session.ServiceEndpoints.of_server("http://127.0.0.1:9")) as client:
        with pytest.raises(errors.Offline):
            await client.users.me()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b""])
async def test_https_where_nobody_speaks_tls_says_so(nursery, answer):
    """A server without TLS answers in plain text, or hangs up."""

    async def serve(stream):
        async with stream:
            await stream.receive_some()
            if answer:
                await stream.send_all(answer)

    listeners = await nursery.start(functools.partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    at = session.ServiceEndpoints.of_server(f"https://127.0.0.1:{port}")
    async with session.open_client(at) as client:
        with pytest.raises(errors.Offline, match="nobody speaks TLS at that address"):
            await client.users.me()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("host", ["192.0.2.7", "service.test", "localhost.example"])
async def test_secrets_need_tls_beyond_loopback(host):
    async def fetch():
        return tokens.Token(access_token=pydantic.SecretStr("t"), expires_in=60)

    at = session.ServiceEndpoints.of_server(f"http://{host}:9")
    grant = tokens.RefreshToken(
        client_id="c", client_secret=pydantic.SecretStr("s"), refresh_token=pydantic.SecretStr("r")
    )
    with trio.fail_after(5):
        async with session.open_client(at, auth=bearer.BearerAuth(fetch)) as client:
            for ask in (
                lambda: client.tokens.request(grant),
                lambda: client.tokens.revoke("c", pydantic.SecretStr("s"), pydantic.SecretStr("r")),
                client.users.me,
                client.files.content("1").__aenter__,
            ):
                with pytest.raises(errors.ProtocolError, match="without TLS"):
                    await ask()


async def test_the_kernel_looks_after_silent_connections(nursery):
    async def serve(stream):
        async with stream:
            await stream.receive_some(10_000)
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with session.open_client(session.ServiceEndpoints.of_server(url)) as client:
        http = client.tokens._wire._http
        response = await http.send(http.build_request("GET", url), stream=True)
        found = response.extensions["network_stream"].get_extra_info("socket")
        for level, option, value in session.KEEP_ALIVE:
            assert found.getsockopt(level, option) == value
        await response.aclose()


async def test_every_capability_is_there(connect):
    client = await connect(None)
    for name in capabilities.Capabilities.__annotations__:
        made = getattr(client, name)
        assert type(made).__name__ == capabilities.Capabilities.__annotations__[name].strip("'\"")
        assert getattr(client, name) is made
    assert not hasattr(client, "nothing")
    capabilities.load_all()
