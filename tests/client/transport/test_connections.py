"""How the connections of a client are made and read."""

import random
import ssl
import threading
from collections.abc import Awaitable, Callable

import httpcore
import httpx
import pytest
import trio

from cmsfs.client import session
from cmsfs.client.transport import bulk_stream, connections, hosts
from tests.support import certificates

Serve = Callable[[trio.abc.Stream], Awaitable[None]]

BODY = random.Random(1).randbytes(4 * 1024 * 1024)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Both sides of TLS: the server's terms, and those of a client that trusts it."""
    certfile, keyfile = certificates.self_signed(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certfile, keyfile)
    return server, session.tls(certfile)


@pytest.fixture
async def reach(nursery):
    """A connection of a client to somebody who serves so."""
    streams = []

    async def connect(serve: Serve) -> httpcore.AsyncNetworkStream:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def accept_one() -> None:
            async with listener:
                stream = await listener.accept()
            async with stream:
                await serve(stream)

        nursery.start_soon(accept_one)
        port = listener.socket.getsockname()[1]
        streams.append(await connections.BulkBackend().connect_tcp("127.0.0.1", port, timeout=10))
        return streams[-1]

    yield connect
    for stream in streams:
        await stream.aclose()


async def all_of(stream, nbytes):
    pieces: list[bytes] = []
    while sum(len(piece) for piece in pieces) < nbytes:
        pieces.append(await stream.read(nbytes - sum(len(piece) for piece in pieces), timeout=30))
        assert pieces[-1]
    return pieces


@pytest.mark.parametrize("layers", [0, 1, 2])
async def test_large_bodies_cross_in_large_pieces(reach, tls, layers):
    """Over nothing, over TLS, and over TLS in the TLS of a proxy."""
    server, client = tls

    async def echo(stream):
        for _ in range(layers):
            stream = trio.SSLStream(stream, server, server_side=True)
        heard = bytearray()
        while len(heard) < len(BODY):
            heard += await stream.receive_some()
        await stream.send_all(heard)
        await trio.sleep_forever()

    stream = await reach(echo)
    for _ in range(layers):
        stream = await stream.start_tls(client, "127.0.0.1", timeout=30)
    await stream.write(BODY, timeout=30)
    pieces = await all_of(stream, len(BODY))
    assert b"".join(pieces) == BODY
    assert len(pieces) < len(BODY) / (4 * bulk_stream.RECORD_BYTES)


async def test_tickets_of_tls_do_not_end_an_idle_connection(reach, tls):
    end = trio.Event()

    async def serve(stream):
        # Not by trio, which sends tickets with the first data.
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = tls[0].wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                server.do_handshake()
                break
            except ssl.SSLWantReadError:
                await stream.send_all(outgoing.read())
                incoming.write(await stream.receive_some())
        await stream.send_all(outgoing.read())
        await end.wait()

    stream = await (await reach(serve)).start_tls(tls[1], "127.0.0.1")
    await trio.lowlevel.wait_readable(stream.get_extra_info("socket"))
    assert not stream.get_extra_info("is_readable")
    end.set()
    await trio.lowlevel.wait_readable(stream.get_extra_info("socket"))
    assert stream.get_extra_info("is_readable")


@pytest.mark.parametrize("nbytes", [1, 100_000, bulk_stream.LOOP_BYTES + 100_000])
async def test_bytes_before_a_stall_are_given_out(reach, tls, nbytes):
    async def stall(stream):
        stream = trio.SSLStream(stream, tls[0], server_side=True)
        await stream.receive_some()
        await stream.send_all(BODY[:nbytes])
        await trio.sleep_forever()

    stream = await (await reach(stall)).start_tls(tls[1], "127.0.0.1")
    await stream.write(b"?")
    assert b"".join(await all_of(stream, nbytes)) == BODY[:nbytes]
    with pytest.raises(httpcore.ReadTimeout):
        await stream.read(1, timeout=0.01)


async def test_what_a_slow_line_brings_bit_by_bit_comes_as_one(reach, monkeypatch):
    monkeypatch.setattr(bulk_stream, "LINGER_SECONDS", 0.0)
    monkeypatch.setattr(bulk_stream, "GATHER_SECONDS", 60.0)
    begin, nothing_there = trio.Event(), threading.Semaphore(0)

    class Watched:
        def __init__(self, layer):
            self._layer = layer

        def take(self):
            data = self._layer.take()
            if data is None:
                nothing_there.release()
            return data

    async def serve(stream):
        await stream.send_all(BODY[: bulk_stream.LOOP_BYTES])
        await begin.wait()
        for start in range(bulk_stream.LOOP_BYTES, bulk_stream.LOOP_BYTES + 5000, 1000):
            await stream.send_all(BODY[start : start + 1000])
            await trio.to_thread.run_sync(nothing_there.acquire, abandon_on_cancel=True)

    stream = await reach(serve)
    await all_of(stream, bulk_stream.LOOP_BYTES)
    stream._layer = Watched(stream._layer)
    begin.set()
    piece = await stream.read(5000)
    assert piece == BODY[bulk_stream.LOOP_BYTES : bulk_stream.LOOP_BYTES + 5000]
    nothing_there.release()


async def test_a_cancelled_read_loses_no_bytes(reach):
    half = trio.Event()

    async def serve(stream):
        await stream.send_all(BODY[: len(BODY) // 2])
        await half.wait()
        await stream.send_all(BODY[len(BODY) // 2 :])

    stream = await reach(serve)
    pieces = await all_of(stream, len(BODY) // 2)
    with trio.move_on_after(0.01) as scope:
        await stream.read(1)
    assert scope.cancelled_caught
    half.set()
    assert b"".join(pieces + await all_of(stream, len(BODY) // 2)) == BODY


async def test_closing_ends_a_read_that_waits(reach, nursery):
    async def serve(stream):
        await trio.sleep_forever()

    stream = await reach(serve)
    nursery.start_soon(stream.aclose)
    with pytest.raises(httpcore.ReadError):
        await stream.read(1)


async def test_an_ended_connection_is_not_used_again(reach, tls):
    """The end comes with the last bytes, and without TLS taking leave."""

    async def serve(stream):
        stream = trio.SSLStream(stream, tls[0], server_side=True)
        await stream.receive_some()
        await stream.send_all(b"all")
        await stream.transport_stream.aclose()

    stream = await (await reach(serve)).start_tls(tls[1], "127.0.0.1")
    assert not stream.get_extra_info("is_readable")
    await stream.write(b"?")
    assert [await stream.read(2), await stream.read(1), await stream.read(1)] == [b"al", b"l", b""]
    assert stream.get_extra_info("is_readable")


async def test_a_stranger_is_not_spoken_to(reach, tls):
    async def serve(stream):
        with pytest.raises(trio.BrokenResourceError):
            await trio.SSLStream(stream, tls[0], server_side=True).do_handshake()

    stream = await reach(serve)
    with pytest.raises(httpcore.ConnectError, match="certificate verify failed"):
        await stream.start_tls(session.tls(None), "127.0.0.1")
    assert stream.get_extra_info("socket").fileno() < 0


async def test_a_client_leaves_other_programs_connections_alone():
    before = httpcore.AsyncHTTP11Connection.READ_NUM_BYTES
    async with httpx.AsyncClient() as http:
        session._connect(http, hosts.Hosts(set()))
        backend = http._transport.inner._pool._network_backend  # type: ignore[attr-defined]
        assert isinstance(backend, connections.OutboundGuard)
        assert isinstance(backend._inner, connections.BulkBackend)
    assert before == httpcore.AsyncHTTP11Connection.READ_NUM_BYTES
