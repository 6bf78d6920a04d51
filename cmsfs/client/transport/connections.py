"""Opens connections: streams that are read in large pieces, and a guard against requests to local addresses.

A host name may resolve to this machine even where the address itself is forbidden.  Resolving it beforehand
proves nothing, since the next lookup may differ.  So the peer's address is checked after connecting, before
any byte is sent.
"""

import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import trio

from cmsfs import errors
from cmsfs.client.transport.bulk_stream import BulkStream
from cmsfs.client.transport.hosts import Hosts, is_inside


class BulkBackend(httpcore.AsyncNetworkBackend):
    """Opens connections as `BulkStream`, which reads in large pieces."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                stream = await trio.open_tcp_stream(host, port, local_address=local_address)
        except trio.TooSlowError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for option in socket_options or ():
            stream.setsockopt(*option)
        return BulkStream(socket.socket(fileno=stream.socket.detach()))

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class OutboundGuard(httpcore.AsyncNetworkBackend):
    """Connects as `inner` does; raises `ProtocolError` if a host that is not the service's resolved to a
    loopback or link-local address."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend, hosts: Hosts) -> None:
        self._inner = inner
        self._hosts = hosts

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        reached = stream.get_extra_info("server_addr")
        if not self._hosts.is_own(host) and (reached is None or is_inside(str(reached[0]))):
            await stream.aclose()
            raise errors.ProtocolError(f"a download leads into this machine ({host})")
        return stream

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
