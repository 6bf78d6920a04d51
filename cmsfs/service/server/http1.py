"""HTTP/1.1 connections, with and without TLS.

Hypercorn leaves HTTP/1.1 for whoever sends HTTP/2's preface or asks for h2c, and no setting keeps it from
that.  So it is given a connection that never tells it: another version is 505, and the wish to upgrade is
passed over, as it may be.
"""

from typing import Any

import h11
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer

_VERSIONS = (b"1.0", b"1.1")


class _Connection(h11.Connection):
    def next_event(self) -> Any:
        event = super().next_event()
        if not isinstance(event, h11.Request):
            return event
        if event.http_version not in _VERSIONS:
            raise h11.RemoteProtocolError("HTTP/1.1 alone is spoken here", error_status_hint=505)
        if not any(name == b"upgrade" and value.strip().lower() == b"h2c" for name, value in event.headers):
            return event
        return h11.Request(
            method=event.method,
            target=event.target,
            headers=[one for one in event.headers if one[0] != b"upgrade"],
            http_version=event.http_version,
        )


class Http1Server(TCPServer):
    """What answers the requests of one connection."""

    @property
    def protocol(self) -> ProtocolWrapper:
        return self._protocol

    @protocol.setter
    def protocol(self, made: ProtocolWrapper) -> None:
        assert isinstance(made.protocol, H11Protocol)  # no other is offered in the handshake
        most = made.config.h11_max_incomplete_size
        made.protocol.connection = _Connection(h11.SERVER, max_incomplete_event_size=most)
        self._protocol = made
