"""Connects to webhook addresses, and never to internal ones.

A host name may resolve to any address, and to another one the next time.  So it is resolved once, checked,
and connected to by IP address; then the peer of the connection is checked again.  Redirects are not followed.

Rule: addresses that are not public (this machine, private and link-local networks, and IPv4 addresses of
these kinds embedded in IPv6) are refused, unless the administrator allows their network.
"""

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

import trio

from cmsfs import errors

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Networks = Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]

# Timeout of one delivery.
TIMEOUT_SECONDS = 30
# Most bytes read of a response; only its status is used.
MAX_RESPONSE = 16_384

# Prefixes with embedded IPv4 addresses: NAT64, 6to4 and Teredo (which is_global handles).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NotReachable(errors.CmsfsError):
    """An address that webhooks must not connect to."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A parsed webhook address."""

    parts: SplitResult
    host: str
    port: int

    @property
    def is_https(self) -> bool:
        return self.parts.scheme == "https"


def is_reachable(found: IpAddress) -> bool:
    """Return whether an IP address is public."""
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if inner is not None:
            return is_reachable(inner)
    return found.is_global and not found.is_multicast


def check_address(address: str, allowed: Networks) -> Receiver:
    """Parse an address; raises `NotReachable` if it is known to be internal without resolving it."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise NotReachable("is no address") from None
    receiver = Receiver(parts, host, port)
    if parts.scheme not in ("http", "https") or not host or parts.username is not None or parts.fragment:
        raise NotReachable("must be the address of a host, with https")
    if not receiver.is_https and not allowed:
        raise NotReachable("must begin with https")
    if (number := _parse_ip(host)) is not None:
        _check_ip(receiver, number, allowed)
    elif not allowed and (host == "localhost" or host.endswith(".localhost")):
        raise NotReachable("is this machine; webhooks go to addresses that everybody can reach")
    return receiver


def _parse_ip(host: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _check_ip(receiver: Receiver, number: IpAddress, allowed: Networks) -> None:
    if any(number.version == network.version and number in network for network in allowed):
        return
    if not is_reachable(number):
        raise NotReachable("is inside; webhooks go to addresses that everybody can reach")
    if not receiver.is_https:
        raise NotReachable("must begin with https; only what is inside and allowed has plain http")


async def post(address: str, headers: Mapping[str, str], body: bytes, allowed: Networks) -> int:
    """POST the body and return the status.  Raises `NotReachable`, or `OSError` if the connection fails."""
    receiver = check_address(address, allowed)
    stream = await _connect(receiver, allowed)
    async with stream:
        path = receiver.parts.path or "/"
        target = f"{path}?{receiver.parts.query}" if receiver.parts.query else path
        host = f"[{receiver.host}]" if ":" in receiver.host else receiver.host
        shown = host if receiver.parts.port is None else f"{host}:{receiver.port}"
        all_headers = {"Host": shown, "Content-Length": str(len(body)), "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
        await stream.send_all(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body)
        return await _read_status(stream)


async def _connect(receiver: Receiver, allowed: Networks) -> trio.abc.Stream:
    found = await trio.socket.getaddrinfo(receiver.host, receiver.port, type=trio.socket.SOCK_STREAM)
    for one in found:
        # One internal address disqualifies the name: such a DNS answer is hostile.
        _check_ip(receiver, ipaddress.ip_address(one[4][0]), allowed)
    failure: OSError = OSError(f"{receiver.host} has no address")
    for family, kind, _, _, place in found:
        connection = trio.socket.socket(family, kind)
        try:
            await connection.connect(place)
            _check_ip(receiver, ipaddress.ip_address(connection.getpeername()[0]), allowed)
        except OSError as error:
            failure = error
            connection.close()
            continue
        except BaseException:
            connection.close()
            raise
        stream = trio.SocketStream(connection)
        if not receiver.is_https:
            return stream
        context = ssl.create_default_context()
        return trio.SSLStream(stream, context, server_hostname=receiver.host, https_compatible=True)
    raise failure


async def _read_status(stream: trio.abc.Stream) -> int:
    answer = b""
    while b"\r\n" not in answer and len(answer) < MAX_RESPONSE:
        chunk = await stream.receive_some(4096)
        if not chunk:
            break
        answer += chunk
    words = answer.partition(b"\r\n")[0].split(b" ")
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise OSError("the receiver does not speak HTTP")
    return int(words[1])
