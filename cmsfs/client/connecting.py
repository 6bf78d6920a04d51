"""Connections, by where they have come to: a name may lead into this machine where an address may not.

Looking a name up beforehand proves nothing, since the next answer may be another one.  So the connection is
made and looked at, before a byte is sent on it.
"""

from collections.abc import Iterable
from typing import Any

import httpcore

from cmsfs import errors
from cmsfs.client.hosts import Hosts, is_inside


class Outward(httpcore.AsyncNetworkBackend):
    """Connects as `inner` does; raises `ProtocolError` where a stranger's name has led to this machine or its
    link."""

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

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        return await self._inner.connect_unix_socket(path, timeout, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)
