"""The hosts that belong to the service: only these receive its tokens.

Rule: an address that the service names, for a download or something to read, is a stranger's until it is
shown to be the service's.
"""

import ipaddress

# Of `api.example.com` the domain is `example.com`; of a shorter name there is none that would be its own.
_LABELS = 3


class Hosts:
    """The hosts of the configured addresses, and their neighbours by name (uploads go to some)."""

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
        """Whether a download may go there: never to this machine or its link, unless the service is there."""
        return self.is_own(host) or not is_inside(host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(_plain(host)).is_loopback
    except ValueError:
        # Another name may lead anywhere, whatever it leads to at the moment.
        return _plain(host) == "localhost"


def is_inside(host: str) -> bool:
    """Whether an address is this machine's or its link's, by what it says."""
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
