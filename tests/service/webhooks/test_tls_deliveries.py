"""Deliveries of webhooks over TLS: to whom the machine trusts, and still not inside."""

import ssl

import pytest
import trio

from cmsfs.service.webhooks import receivers
from tests.service.webhooks.conftest import NETWORKS, RecordingReceiver, hook
from tests.service.webhooks.test_deliveries import queue, until
from tests.support import certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    return certificates.self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def secret(nursery, certificate):
    """A receiver behind TLS."""
    made = RecordingReceiver()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def handle(stream):
        # Who does not trust the certificate leaves in the middle of the handshake.
        try:
            await made.handle(trio.SSLStream(stream, context, server_side=True, https_compatible=True))
        except trio.BrokenResourceError:
            made.connections += 1

    async def run(task_status):
        await trio.serve_tcp(handle, 0, host="127.0.0.1", task_status=task_status)

    (listener,) = await nursery.start(run)
    made.address = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/in"
    return made


async def test_a_receiver_that_the_machine_trusts_is_told(
    hooked, secret, delivering, certificate, service, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    folder = await hooked.folder("folder")
    await hook(hooked, folder, secret.address, "FILE.UPLOADED")
    await hooked.upload("a.txt", b"text", folder["id"])
    (event,) = await secret.wait()
    assert (event["trigger"], event["source"]["name"]) == ("FILE.UPLOADED", "a.txt")
    assert secret.came[0][0]["box-signature-primary"]
    await until(service, lambda: not queue(service))


@pytest.mark.parametrize("fault", ["authority", "name"])
async def test_a_receiver_that_it_does_not_trust_is_told_nothing(
    hooked, secret, delivering, certificate, service, monkeypatch, fault
):
    if fault == "name":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        secret.address = secret.address.replace("127.0.0.1", "localhost")
    folder = await hooked.folder("folder")
    await hook(hooked, folder, secret.address, "FILE.UPLOADED")
    await hooked.upload("a.txt", b"text", folder["id"])
    await until(service, lambda: [one["attempts"] for one in queue(service)] == [1])
    assert secret.came == []


async def test_tls_does_not_lead_inside(secret, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    for address in (secret.address, secret.address.replace("127.0.0.1", "localhost")):
        with pytest.raises(receivers.NotReachable):
            await receivers.post(address, {}, b"{}", ())
    assert secret.connections == 0
    assert await receivers.post(secret.address, {}, b"{}", NETWORKS) == 200
