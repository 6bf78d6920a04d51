"""TLS over a socket stream; one read returns all records that have arrived.

trio's own stream returns one record per call, 16 KiB at most, each with a pass of the event loop: for an
upload of a gibibyte these are 65,536.
"""

import ssl
from contextlib import suppress
from pathlib import Path

import trio

from cmsfs.wakeup import LockGuard

# Bytes per read from the socket, and per encryption before sending.
READ_SIZE = 256 * 1024
WRITE_SIZE = 256 * 1024


def context(certfile: Path, keyfile: Path) -> ssl.SSLContext:
    """The TLS context of a server with this certificate: TLS 1.2 and later.  Raises `OSError`."""
    tls_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls_context.minimum_version = ssl.TLSVersion.TLSv1_2
    tls_context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    tls_context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    tls_context.set_alpn_protocols(["http/1.1"])
    tls_context.load_cert_chain(certfile, keyfile)
    return tls_context


class TlsStream:
    """The server side of a TLS connection; one task may receive while another sends."""

    def __init__(self, below: trio.SocketStream, context: ssl.SSLContext) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = trio.Lock()

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._below.socket

    async def do_handshake(self) -> None:
        """Do the handshake.  Raises `trio.BrokenResourceError` if it fails."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._receive_more():
                    raise trio.BrokenResourceError("the client ended the handshake") from None
            except ssl.SSLError as error:
                await self._flush()  # the alert that says why
                raise trio.BrokenResourceError("the handshake failed") from error
            else:
                await self._flush()
                return

    async def receive_some(self, limit: int) -> bytes:
        """Up to `limit` bytes; empty at the end of the stream.  Raises `trio.BrokenResourceError`."""
        while True:
            found, size, ended = [], 0, False
            try:
                while size < limit:
                    piece = self._ssl.read(limit - size)
                    if not piece:
                        ended = True
                        break
                    found.append(piece)
                    size += len(piece)
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                ended = True  # HTTP's framing detects truncation
            except ssl.SSLError as error:
                raise trio.BrokenResourceError("the client sent invalid TLS") from error
            if self._outgoing.pending:
                await self._flush()
            if found or ended:
                return found[0] if len(found) == 1 else b"".join(found)
            await self._receive_more()

    async def send_all(self, data: bytes) -> None:
        view = memoryview(data)
        async with LockGuard(self._sending):  # a response does not wait for another pass of the loop
            for start in range(0, len(view), WRITE_SIZE):
                part = view[start : start + WRITE_SIZE]
                try:
                    while part:
                        part = part[self._ssl.write(part) :]
                except ssl.SSLError as error:
                    raise trio.BrokenResourceError("the client ended the connection") from error
                await self._below.send_all(self._outgoing.read())

    async def send_eof(self) -> None:
        """Send close_notify and shut down the sending side."""
        with suppress(ssl.SSLError):  # the client's close_notify is not required
            self._ssl.unwrap()
        await self._flush()
        await self._below.send_eof()

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._outgoing.read():
                await self._below.send_all(data)

    async def _receive_more(self) -> bool:
        data = await self._below.receive_some(READ_SIZE)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return bool(data)
