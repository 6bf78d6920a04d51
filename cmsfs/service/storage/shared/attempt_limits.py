"""Throttles repeated wrong secrets.

Counted is the pair of who asks (an address, a user) and what for (a login, a link, an application).  From the
fifth wrong guess on the wait doubles each time.  A stranger thereby makes nobody wait but whoever comes from
the stranger's own address.  Many strangers at one account together have fewer guesses each that cost nothing,
the first always being judged.

Rule: a guess counts before it is judged, so that many at once are no way around; a right one forgets the
pair.  Nothing is kept on the disk, and never of more than MAX_PAIRS.  Where several processes serve a store,
the database counts (postgres/shared_database.py), by the same numbers.
"""

import abc
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from cmsfs.runtime import clock

FREE = 5
MAX_WAIT_SECONDS = 900.0

# A pair that is quiet for so long begins anew.
REMEMBERED_SECONDS = 3600.0

# With more wrong guesses at one account than this, from anywhere, nobody has more than one free.
MANY = 50

MAX_PAIRS = 100_000


@dataclass(slots=True)
class _Pair:
    wrong: int = 0
    until: float = 0.0
    at: float = 0.0


class Attempts(abc.ABC):
    """What counts guesses."""

    clock: Callable[[], float]

    @abc.abstractmethod
    def take(self, who: str, what: str) -> float:
        """Count a guess; 0 if it may be judged, else the seconds to wait."""

    @abc.abstractmethod
    def forgive(self, who: str, what: str) -> None:
        """The guess that was counted last was right."""


class AttemptLimits(Attempts):
    """All of a service that is one process."""

    def __init__(self) -> None:
        self.clock = clock.monotonic
        # In the order of their last use; those with nobody are of an account as a whole.
        self._pairs: OrderedDict[tuple[str | None, str], _Pair] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pairs)

    def take(self, who: str, what: str) -> float:
        now = self.clock()
        pair, account = self._pair(who, what, now), self._pair(None, what, now)
        if pair.until > now:
            return pair.until - now
        pair.wrong += 1
        account.wrong += 1
        free = FREE if account.wrong <= MANY else 1
        if pair.wrong >= free:
            pair.until = now + min(2.0 ** min(pair.wrong - free, 20), MAX_WAIT_SECONDS)
        return 0.0

    def forgive(self, who: str, what: str) -> None:
        self._pairs.pop((who, what), None)
        account = self._pairs.get((None, what))
        if account is not None:
            account.wrong = max(0, account.wrong - 1)

    def _pair(self, who: str | None, what: str, now: float) -> _Pair:
        pair = self._pairs.setdefault((who, what), _Pair(at=now))
        if now - pair.at > REMEMBERED_SECONDS and pair.until <= now:
            pair.wrong = 0
        pair.at = now
        self._pairs.move_to_end((who, what))
        for _ in range(2):
            key, oldest = next(iter(self._pairs.items()))
            if now - oldest.at <= REMEMBERED_SECONDS and len(self._pairs) <= MAX_PAIRS:
                break
            del self._pairs[key]
        return pair


def network(address: str) -> str:
    """Whose guesses count together: an address, or the network that somebody with IPv6 has of addresses."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
