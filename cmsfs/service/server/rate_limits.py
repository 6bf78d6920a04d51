"""Rate limits per user: token buckets for calls, uploads and searches; off by default.

`cmsfs serve --rate-limits` gives the application one `RateLimits`; it checks every call of a user, and every
request of the token endpoint.  A bucket holds the burst allowance and refills evenly; a call takes one token
from each bucket that applies, or none at all and gets a 429 with the seconds to wait.

Rule: full buckets are dropped, and there are never more than MAX_BUCKETS.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import trio

from cmsfs.service import problems

# The maximum number of buckets; some 200 bytes each.
MAX_BUCKETS = 100_000
_MAX_CLIENT_ID = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """A limit of `calls` in `seconds`, per user or for the whole enterprise.

    Token requests are limited per application and address, so that clients elsewhere cannot use the limit up.
    """

    kind: str
    calls: int
    seconds: float
    of: Literal["user", "enterprise", "application"] = "user"


# The public API's documented limits.  A chunked upload counts once, at its commit.
PUBLISHED = (
    Rule("call", 1000, 60),
    Rule("upload", 240, 60),
    Rule("search", 6, 1),
    Rule("search", 60, 60),
    Rule("search", 12, 1, of="enterprise"),
    # Our own: no limit is documented.
    Rule("token", 120, 60, of="application"),
)

_KINDS = {
    ("POST", "upload"): re.compile(r"(/api)?/2\.0/files(/\d+)?/content|.*/files/upload_sessions/\w+/commit"),
    ("GET", "search"): re.compile(r"(/api)?/2\.0/search"),
}


def kinds(method: str, path: str) -> list[str]:
    """The kinds of limits that a call counts against."""
    return ["call", *(kind for (how, kind), form in _KINDS.items() if how == method and form.fullmatch(path))]


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RateLimits:
    """The buckets of all users."""

    def __init__(
        self, rules: tuple[Rule, ...] = PUBLISHED, *, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._rules = rules
        self._clock = clock
        # Least recently used first.
        self._buckets: OrderedDict[tuple[int, Hashable], _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, method: str, path: str, *, user: int, enterprise: int) -> None:
        """Count a call; 429 `rate_limit_exceeded` if a limit is exceeded."""
        what = kinds(method, path)
        whose: dict[str, Hashable] = {"user": user, "enterprise": enterprise}
        self._take([(one, whose[rule.of]) for one, rule in enumerate(self._rules) if rule.kind in what])

    def take_token(self, address: str, client_id: str) -> None:
        """Count a request of the token endpoint; 429 if the limit is exceeded."""
        whose = (address, client_id[:_MAX_CLIENT_ID])
        self._take([(one, whose) for one, rule in enumerate(self._rules) if rule.kind == "token"])

    def _take(self, wanted: list[tuple[int, Hashable]]) -> None:
        # atomic: no await between checking the buckets and taking from them
        now = self._clock()
        concerned, wait = [], 0.0
        for number, whose in wanted:
            rule, bucket = self._rules[number], self._bucket(number, whose, now)
            concerned.append(bucket)
            if bucket.left < 1:
                wait = max(wait, (1 - bucket.left) * rule.seconds / rule.calls)
        if wait:
            raise problems.Refused(
                429,
                "rate_limit_exceeded",
                "Too many requests; try again later.",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        for bucket in concerned:
            bucket.left -= 1

    def _bucket(self, number: int, whose: Hashable, now: float) -> _Bucket:
        """The bucket of a rule, refilled up to now."""
        rule, key = self._rules[number], (number, whose)
        bucket = self._buckets.setdefault(key, _Bucket(rule.calls, now))
        bucket.left = min(rule.calls, bucket.left + (now - bucket.at) * rule.calls / rule.seconds)
        bucket.at = now
        self._buckets.move_to_end(key)
        self._forget(now)
        return bucket

    def _forget(self, now: float) -> None:
        """Drop up to two of the least recently used buckets, if they are full or there are too many."""
        for _ in range(2):
            (number, whose), bucket = next(iter(self._buckets.items()))
            if now - bucket.at < self._rules[number].seconds and len(self._buckets) <= MAX_BUCKETS:
                return
            del self._buckets[(number, whose)]
