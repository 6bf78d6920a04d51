"""Connection settings of a client: read buffer size, and which addresses may be connected to.

A name may lead into this machine where an address may not.  Looking it up beforehand proves nothing, since
the next answer may be another one.  So the connection is made and looked at, before a byte is sent on it.
"""

import ssl
from collections.abc import Iterable
from typing import Any

import httpcore

from cmsfs import errors
from cmsfs.client.transport.hosts import Hosts, is_inside

# A download of a GiB costs half the processor time when it is read in pieces of this size (0.48 s, with
# httpcore's own 64 KiB 0.85 s).
READ_BYTES = 256 * 1024


class _Stream(httpcore.AsyncNetworkStream):
    """As `inner`, read in large pieces."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max(max_bytes, READ_BYTES), timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))


class _Backend(httpcore.AsyncNetworkBackend):
    """Connects as `inner` does; what a stream goes through first is said in `_connected`."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return await self._connected(stream, host)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_unix_socket(path, timeout, socket_options)
        return await self._connected(stream, None)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _connected(
        self, stream: httpcore.AsyncNetworkStream, host: str | None
    ) -> httpcore.AsyncNetworkStream:
        """The stream to use; `host` is None for a socket of this machine."""
        return stream


class LargeReadBackend(_Backend):
    """Connects as `inner` does, to streams that are read in large pieces."""

    async def _connected(
        self, stream: httpcore.AsyncNetworkStream, host: str | None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(stream)


class OutboundGuard(_Backend):
    """Connects as `inner` does; raises `ProtocolError` where a stranger's name has led to this machine or its
    link."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend, hosts: Hosts) -> None:
        super().__init__(inner)
        self._hosts = hosts

    async def _connected(
        self, stream: httpcore.AsyncNetworkStream, host: str | None
    ) -> httpcore.AsyncNetworkStream:
        reached = stream.get_extra_info("server_addr")
        if (
            host is not None
            and not self._hosts.is_own(host)
            and (reached is None or is_inside(str(reached[0])))
        ):
            await stream.aclose()
            raise errors.ProtocolError(f"a download leads into this machine ({host})")
        return stream
