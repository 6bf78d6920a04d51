"""The client edge: every refusal and every broken connection is an exception of ours."""

import email.utils
import time

import httpx
import pytest
import trio
from starlette.responses import Response

from cmsfs import errors
from cmsfs.client.transport import errors as client_errors
from cmsfs.client.transport import retry

ONCE = retry.Policy(attempts=1, connect_attempts=1)


def answer(status, body=b"", **headers):
    return httpx.Response(status, content=body, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.NotSupported),
        (409, errors.Conflict),
        (410, errors.Gone),
        (412, errors.PreconditionFailed),
        (418, errors.ApiError),
        (429, errors.RateLimited),
        (500, errors.ServerError),
        (503, errors.ServerError),
        (599, errors.ServerError),
    ],
)
async def test_each_status_has_its_exception(connect, status, expected):
    async def handler(request):
        return Response(
            b'{"type":"error","status":%d,"code":"a_code","message":"a text","request_id":"r",'
            b'"context_info":{"conflicts":[{"id":"5"}]}}' % status,
            status,
        )

    client = await connect(handler, policy=ONCE)
    with pytest.raises(errors.ApiError) as caught:
        await client.users.me()
    found = caught.value
    assert type(found) is expected
    assert (found.status, found.code, found.message, found.request_id) == (status, "a_code", "a text", "r")
    assert found.context_info == {"conflicts": [{"id": "5"}]}


def test_terms_that_nobody_agreed_to_are_a_missing_right():
    body = b'{"type":"error","status":400,"code":"terms_of_service_required","message":"User must accept"}'
    found = client_errors.from_response(answer(400, body))
    assert (type(found), found.status) == (errors.Forbidden, 400)


@pytest.mark.parametrize("status", [403, 404, 410])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><h1>Not Found</h1></html>",
        b'{"message": "no Route matched with those values"}',
        b'{"code": 404, "message": "not found"}',
        b'{"type": "fault", "code": "not_found"}',
        b'{"type": "error", "status": 200, "code": "not_found"}',
    ],
)
def test_foreign_error_body_is_not_the_services(status, body):
    found = client_errors.from_response(answer(status, body))
    assert type(found) is errors.NotOurs
    assert found.status == status


def test_insufficient_scope_is_forbidden():
    found = client_errors.from_response(
        answer(403, b"", www_authenticate='Bearer error="insufficient_scope"')
    )
    assert type(found) is errors.Forbidden


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'["a"]',
        b"null",
        b"17",
        b'"text"',
        b"<html>Bad gateway</html>",
        b"\xff\xfe",
        b"{",
        b"[" * 100_000,
        b"{}",
        b'{"code": null, "message": 17}',
        b'{"status": "high", "context_info": []}',
    ],
)
def test_any_error_body_is_survived(body):
    found = client_errors.from_response(answer(502, body))
    assert type(found) is errors.ServerError
    assert found.status == 502
    assert found.code == ""
    assert found.context_info == {}


def test_malformed_error_body_keeps_readable_parts():
    body = b'{"status": "high", "code": "item_name_in_use", "context_info": {"conflicts": {"id": "5"}}}'
    found = client_errors.from_response(answer(409, body))
    assert found.code == "item_name_in_use"
    assert isinstance(found, errors.Conflict)
    assert found.conflict == {"id": "5"}


def test_empty_401_uses_its_header():
    header = 'Bearer realm="Service", error="invalid_token", error_description="The token is dead."'
    found = client_errors.from_response(answer(401, www_authenticate=header))
    assert isinstance(found, errors.Unauthorized)
    assert "The token is dead" in found.message


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("100", 100.0), ("0", 0.0), (" 7 ", 7.0), ("", None), ("soon", None), ("-3", None), ("1e3", None)],
)
def test_retry_after_in_seconds(value, seconds):
    assert client_errors.retry_after(answer(429, retry_after=value)) == seconds


@pytest.mark.parametrize(
    "value", ["99999999999", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2359"]
)
def test_retry_after_is_capped_at_an_hour(value):
    assert client_errors.retry_after(answer(429, retry_after=value)) == client_errors.LONGEST_RETRY_AFTER


def test_retry_after_as_a_date():
    soon = email.utils.formatdate(time.time() + 90, usegmt=True)
    assert client_errors.retry_after(answer(503, retry_after=soon)) == pytest.approx(90, abs=2)
    past = email.utils.formatdate(time.time() - 90, usegmt=True)
    assert client_errors.retry_after(answer(503, retry_after=past)) == 0
    assert client_errors.retry_after(answer(503, retry_after="Fri, 99 Foo 2026 99:99:99 GMT")) is None


def test_token_endpoint_error_is_oauth_error():
    found = client_errors.from_token_response(
        answer(400, b'{"error":"invalid_grant","error_description":"Dead."}')
    )
    assert isinstance(found, errors.OAuthError)
    assert (found.error, found.description, found.status) == ("invalid_grant", "Dead.", 400)
    assert isinstance(client_errors.from_token_response(answer(502, b"<html>")), errors.ServerError)
    assert isinstance(client_errors.from_token_response(answer(400, b'{"error": 17}')), errors.BadRequest)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (httpx.ConnectError("refused"), errors.Offline),
        (httpx.ConnectTimeout("away"), errors.Offline),
        (httpx.ProxyError("no"), errors.Offline),
        (httpx.ReadError("reset"), errors.Offline),
        (httpx.WriteError("reset"), errors.Offline),
        (httpx.CloseError(""), errors.Offline),
        (httpx.RemoteProtocolError("cut off"), errors.Offline),
        (httpx.ReadTimeout("slow"), errors.RemoteTimeout),
        (httpx.WriteTimeout(""), errors.RemoteTimeout),
        (httpx.PoolTimeout(""), errors.RemoteTimeout),
        (httpx.UnsupportedProtocol("gopher"), errors.ProtocolError),
        (httpx.LocalProtocolError("bad header"), errors.ProtocolError),
        (httpx.TooManyRedirects("round"), errors.ProtocolError),
        (httpx.DecodingError("gzip"), errors.ProtocolError),
        (httpx.InvalidURL("no"), errors.ProtocolError),
    ],
)
async def test_each_failure_of_the_network_has_its_exception(connect, broken, raised, expected):
    client = await connect(transport=broken(raised), policy=ONCE)
    with pytest.raises(expected) as caught:
        await client.users.me()
    assert caught.value.__cause__ is raised
    assert str(caught.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"type":"user"}', b'{"id": []}'])
async def test_malformed_response_is_protocol_error(connect, body):
    async def handler(request):
        return Response(body)

    client = await connect(handler)
    with pytest.raises(errors.ProtocolError, match="the answer is no User"):
        await client.users.me()


async def test_cancellation_passes(connect):
    async def handler(request):
        await trio.sleep_forever()

    client = await connect(handler)
    with trio.move_on_after(0.01) as scope:
        await client.users.me()
    assert scope.cancelled_caught
