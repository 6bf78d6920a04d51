"""The hosts that belong to the service: only these receive its tokens.

Rule: a URL that the service returns, such as a download URL, is untrusted unless its host belongs to the
service.
"""

import ipaddress

# The domain of `api.example.com` is `example.com`; a shorter name has no domain of its own.
_LABELS = 3


class Hosts:
    """The hosts of the configured URLs, and other hosts of their domains (uploads go to some)."""

    def __init__(self, named: set[str]) -> None:
        self._named = {_plain(host) for host in named}
        self._domains = {
            host.partition(".")[2]
            for host in self._named
            if not _is_number(host) and host.count(".") + 1 >= _LABELS
        }

    def is_own(self, host: str) -> bool:
        host = _plain(host)
        return host in self._named or any(host.endswith(f".{domain}") for domain in self._domains)

    def may_lead_to(self, host: str) -> bool:
        """Whether a download may go there: never to a loopback or link-local address, unless the service is
        there."""
        return self.is_own(host) or not is_inside(host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(_plain(host)).is_loopback
    except ValueError:
        # Any other name may resolve to another address the next time.
        return _plain(host) == "localhost"


def is_inside(host: str) -> bool:
    """Whether a host is literally a loopback, link-local or unspecified address, or a localhost name."""
    try:
        found = ipaddress.ip_address(_plain(host))
    except ValueError:
        return _plain(host) == "localhost" or _plain(host).endswith(".localhost")
    mapped = getattr(found, "ipv4_mapped", None) or found
    return mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified


def _plain(host: str) -> str:
    return host.lower().rstrip(".").strip("[]")


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
