"""Throttles repeated wrong secrets.

Attempts are counted per pair of client (an address, a user) and target (a login, a link, an application).
From the fifth wrong guess on, the wait doubles each time.  So an attacker delays only clients from the same
address.  After many wrong guesses at one account from anywhere, each client has only one free attempt left.

Rule: a guess is counted before it is checked, so that concurrent guesses gain nothing; a right one deletes
the pair.  Counters are kept in memory only, for at most MAX_PAIRS pairs.  If several processes share a
PostgreSQL database, it counts for all of them (postgres/shared_database.py), with the same limits.
"""

import abc
import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from cmsfs.runtime import clock

FREE_GUESSES = 5
MAX_WAIT_SECONDS = 900.0

# A pair without attempts for this long starts from zero.
REMEMBERED_SECONDS = 3600.0

# After more wrong guesses at one account than this, from anywhere, each client has one free attempt.
MAX_WRONG_GUESSES = 50

MAX_PAIRS = 100_000


@dataclass(slots=True)
class _Pair:
    wrong: int = 0
    until: float = 0.0
    at: float = 0.0


class Attempts(abc.ABC):
    """Counts guesses."""

    clock: Callable[[], float]

    @abc.abstractmethod
    def take(self, who: str, what: str) -> float:
        """Count a guess; returns 0 if it may be checked, else the seconds to wait."""

    @abc.abstractmethod
    def forgive(self, who: str, what: str) -> None:
        """Reset the pair: the last guess was right."""


class AttemptLimits(Attempts):
    """The counters of a single-process service."""

    def __init__(self) -> None:
        self.clock = clock.monotonic
        # Least recently used first; a key with None counts for the target as a whole.
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
        free = FREE_GUESSES if account.wrong <= MAX_WRONG_GUESSES else 1
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
    """The client that an address counts for: the IPv4 address itself, or the /64 network of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
