"""How a client is made."""

import ssl

import pytest
from starlette.responses import JSONResponse

import cmsfs
from cmsfs import errors
from cmsfs.client import session
from cmsfs.models import tokens


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


async def test_authorities_that_cannot_be_read_are_a_matter_of_configuration(tmp_path):
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("no certificate")
    for path in (tmp_path / "none.pem", nonsense):
        with pytest.raises(errors.ConfigError, match=str(path)):
            async with session.open_client(session.Endpoints.of_server("https://x"), ca_file=path):
                pass


def test_tls_is_never_older_than_1_2():
    assert session.tls(None).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_nobody_listening_is_offline():
    async with session.open_client(session.Endpoints.of_server("http://127.0.0.1:9")) as client:
        with pytest.raises(errors.Offline):
            await client.users.me()
