"""The service behind TLS, as a client on the network meets it."""

import ssl

import httpx
import pytest
import trio

from cmsfs import errors
from cmsfs.client import session
from cmsfs.client.transport import retry
from cmsfs.service.server import serve
from tests.support import certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, and its key."""
    return certificates.self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def url(store, nursery, certificate):
    certfile, keyfile = certificate

    async def run(task_status):
        await serve.serve(store, port=0, certfile=certfile, keyfile=keyfile, task_status=task_status)

    return await nursery.start(lambda task_status: run(task_status))


async def test_a_service_whose_authority_is_given_is_trusted(url, certificate):
    assert url.startswith("https://")
    endpoints = session.ServiceEndpoints.of_server(url)
    async with session.open_client(endpoints, ca_file=certificate[0]) as client:
        with pytest.raises(errors.Unauthorized):
            await client.users.me()


async def test_unknown_certificate_is_not_a_network_error(url):
    endpoints = session.ServiceEndpoints.of_server(url)
    policy = retry.Policy(first_wait=1000)  # a repeat would be noticed
    async with session.open_client(endpoints, policy=policy) as client:
        with trio.fail_after(30), pytest.raises(errors.ProtocolError, match="certificate is not accepted"):
            await client.users.me()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_tls_before_1_2_is_not_spoken(url):
    host, _, port = url.removeprefix("https://").partition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    stream = await trio.open_ssl_over_tcp_stream(host, int(port), ssl_context=context)
    with pytest.raises(trio.BrokenResourceError):
        await stream.do_handshake()
    await stream.aclose()


async def test_browsers_are_told_to_come_by_tls_alone(url, certificate):
    trusted = ssl.create_default_context(cafile=certificate[0])
    async with httpx.AsyncClient(verify=trusted, timeout=60) as client:
        for path in ("/2.0/users/me", "/docs", "/nothing", "/s/nothing"):
            answer = await client.get(f"{url}{path}")
            assert answer.headers.get_list("strict-transport-security") == ["max-age=31536000"]
