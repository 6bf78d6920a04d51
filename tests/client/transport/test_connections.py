"""How the connections of a client are read."""

import ssl

import httpcore
import httpx

from cmsfs.client import session
from cmsfs.client.transport import connections, hosts

REQUEST = 64 * 1024  # what httpcore asks for by itself


class Recorded(httpcore.AsyncNetworkStream):
    """A stream of the network, in so far as it tells in what pieces it is read."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def read(self, max_bytes, timeout=None):
        self.asked.append(max_bytes)
        return b""

    async def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        return self


class Network(httpcore.AsyncNetworkBackend):
    """Everybody answers with the same stream."""

    def __init__(self, stream):
        self.stream = stream

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        return self.stream


async def test_tls_reads_use_large_buffers():
    stream = Recorded()
    plain = await connections.LargeReadBackend(Network(stream)).connect_tcp("service.test", 443)
    await plain.read(REQUEST)
    secure = await plain.start_tls(ssl.create_default_context())
    await secure.read(REQUEST)
    assert stream.asked == [connections.READ_BYTES, connections.READ_BYTES]


async def test_a_client_leaves_other_programs_connections_alone():
    before = httpcore.AsyncHTTP11Connection.READ_NUM_BYTES
    async with httpx.AsyncClient() as http:
        session._connect(http, hosts.Hosts(set()))
        backend = http._transport._pool._network_backend  # type: ignore[attr-defined]
        assert isinstance(backend, connections.OutboundGuard)
        assert isinstance(backend._inner, connections.LargeReadBackend)
    assert before == REQUEST == httpcore.AsyncHTTP11Connection.READ_NUM_BYTES
