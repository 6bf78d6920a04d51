"""TLS over a connection, with as many records at once as have come.

trio's own stream gives one record a call, 16 KiB at most, each with a turn of the loop: an upload of a
gibibyte is 65,536 of them.
"""

import ssl
from contextlib import suppress
from pathlib import Path

import trio

# What is taken off the wire at once, and what is encrypted before it is sent.
READ = 256 * 1024
WRITE = 256 * 1024


def context(certfile: Path, keyfile: Path) -> ssl.SSLContext:
    """What a server with this certificate speaks: TLS 1.2 and later.  Raises `OSError`."""
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    made.set_alpn_protocols(["http/1.1"])
    made.load_cert_chain(certfile, keyfile)
    return made


class TlsStream:
    """A server's side of a connection; one task may receive while another sends."""

    def __init__(self, below: trio.SocketStream, context: ssl.SSLContext) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._sending = trio.Lock()

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._below.socket

    async def do_handshake(self) -> None:
        """Raises `trio.BrokenResourceError` if it fails."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._more():
                    raise trio.BrokenResourceError("the client ended the handshake") from None
            except ssl.SSLError as error:
                await self._flush()  # the alert that says why
                raise trio.BrokenResourceError("the handshake failed") from error
            else:
                await self._flush()
                return

    async def receive_some(self, most: int) -> bytes:
        """What has come, up to so many bytes; nothing: the end.  Raises `trio.BrokenResourceError`."""
        while True:
            found, size, ended = [], 0, False
            try:
                while size < most:
                    piece = self._ssl.read(most - size)
                    if not piece:
                        ended = True
                        break
                    found.append(piece)
                    size += len(piece)
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                ended = True  # HTTP says by itself where something is cut off
            except ssl.SSLError as error:
                raise trio.BrokenResourceError("no TLS came") from error
            if self._outgoing.pending:
                await self._flush()
            if found or ended:
                return found[0] if len(found) == 1 else b"".join(found)
            await self._more()

    async def send_all(self, data: bytes) -> None:
        view = memoryview(data)
        async with self._sending:
            for start in range(0, len(view), WRITE):
                part = view[start : start + WRITE]
                try:
                    while part:
                        part = part[self._ssl.write(part) :]
                except ssl.SSLError as error:
                    raise trio.BrokenResourceError("the client ended the connection") from error
                await self._below.send_all(self._outgoing.read())

    async def send_eof(self) -> None:
        """Say that nothing more will come."""
        with suppress(ssl.SSLError):  # the client has not said so yet, and need not
            self._ssl.unwrap()
        await self._flush()
        await self._below.send_eof()

    async def _flush(self) -> None:
        async with self._sending:
            if data := self._outgoing.read():
                await self._below.send_all(data)

    async def _more(self) -> bool:
        data = await self._below.receive_some(READ)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return bool(data)
