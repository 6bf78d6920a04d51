"""The token endpoint."""

from urllib.parse import parse_qsl

import pytest
from starlette.responses import JSONResponse, Response

from cmsfs import errors
from cmsfs.models.enterprise import tokens

CREDENTIALS = tokens.ClientCredentials(
    client_id="c", client_secret="hush", service_subject_type="user", subject_id="7"
)


async def test_grant_form_returns_token(connect):
    forms = []

    async def handler(request):
        assert (request.method, request.url.path) == ("POST", "/oauth2/token")
        assert "authorization" not in request.headers
        forms.append(dict(parse_qsl((await request.body()).decode())))
        return JSONResponse({"access_token": "t", "expires_in": 3600, "token_type": "bearer"})

    client = await connect(handler)
    token = await client.tokens.request(CREDENTIALS)
    assert token.access_token.get_secret_value() == "t"
    assert forms[0]["grant_type"] == "client_credentials"
    assert forms[0]["client_secret"] == "hush"
    assert forms[0]["box_subject_id"] == "7"
    assert client.counters == {"token": 1}


async def test_a_refusal_is_an_oauth_error(connect):
    async def handler(request):
        return JSONResponse({"error": "invalid_client", "error_description": "No such client."}, 400)

    client = await connect(handler)
    with pytest.raises(errors.OAuthError) as caught:
        await client.tokens.request(CREDENTIALS)
    assert (caught.value.error, caught.value.description) == ("invalid_client", "No such client.")


async def test_refresh_token_is_never_retried(connect, autojump_clock):
    asked = 0

    async def handler(request):
        nonlocal asked
        asked += 1
        return Response(status_code=503) if asked % 2 else JSONResponse({"access_token": "t"})

    client = await connect(handler)
    await client.tokens.request(CREDENTIALS)
    assert asked == 2
    with pytest.raises(errors.ServerError):
        await client.tokens.request(tokens.RefreshToken(refresh_token="once"))
    assert asked == 3


async def test_no_secret_is_shown(connect, caplog):
    async def handler(request):
        return JSONResponse({"access_token": "the-token", "refresh_token": "the-other", "expires_in": "soon"})

    caplog.set_level("DEBUG")
    client = await connect(handler)
    with pytest.raises(errors.ProtocolError) as caught:
        await client.tokens.request(CREDENTIALS)
    shown = f"{caught.value!r} {CREDENTIALS!r} {tokens.Token(access_token='the-token')!r} {caplog.text}"
    for secret in ("the-token", "the-other", "hush"):
        assert secret not in shown
