"""Rate limits per user: token buckets for calls, uploads and searches; off by default.

`cmsfs serve --rate-limits` gives the application one `Limits`; `calls.guarded` has it judge every call of a
user, and the token endpoint every request.  A bucket holds what may be asked at once and fills up evenly; a
call takes one from each bucket that it concerns, or none from any and is 429 with the seconds to wait.

Rule: a bucket that is full again is forgotten, and there are never more than MAX_BUCKETS.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import trio

from cmsfs.service import problems

# Of how many users (and enterprises) something is remembered; some 200 bytes each.
MAX_BUCKETS = 100_000
_MAX_CLIENT_ID = 100


@dataclass(frozen=True, slots=True)
class Rule:
    """So many calls in so many seconds, for each user or for the enterprise together.

    For tokens: for each application at each address; others elsewhere cannot use it up.
    """

    kind: str
    calls: int
    seconds: float
    of: Literal["user", "enterprise", "application"] = "user"


# What the public API tells of its own limits.  A file that is uploaded in parts is one upload, its commit.
PUBLISHED = (
    Rule("call", 1000, 60),
    Rule("upload", 240, 60),
    Rule("search", 6, 1),
    Rule("search", 60, 60),
    Rule("search", 12, 1, of="enterprise"),
    # Nothing is published of these.
    Rule("token", 120, 60, of="application"),
)

_KINDS = {
    ("POST", "upload"): re.compile(r"(/api)?/2\.0/files(/\d+)?/content|.*/files/upload_sessions/\w+/commit"),
    ("GET", "search"): re.compile(r"(/api)?/2\.0/search"),
}


def kinds(method: str, path: str) -> list[str]:
    """What a call counts as."""
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
        # In the order of their last use.
        self._buckets: OrderedDict[tuple[int, Hashable], _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, method: str, path: str, *, user: int, enterprise: int) -> None:
        """Count a call; 429 `rate_limit_exceeded` if there were too many before."""
        what = kinds(method, path)
        whose: dict[str, Hashable] = {"user": user, "enterprise": enterprise}
        self._take([(one, whose[rule.of]) for one, rule in enumerate(self._rules) if rule.kind in what])

    def take_token(self, address: str, client_id: str) -> None:
        """Count a request of the token endpoint; 429 if there were too many before."""
        whose = (address, client_id[:_MAX_CLIENT_ID])
        self._take([(one, whose) for one, rule in enumerate(self._rules) if rule.kind == "token"])

    def _take(self, wanted: list[tuple[int, Hashable]]) -> None:
        # atomic: no await between the look at the buckets and the taking
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
        """The bucket of a rule, filled up to this moment."""
        rule, key = self._rules[number], (number, whose)
        bucket = self._buckets.setdefault(key, _Bucket(rule.calls, now))
        bucket.left = min(rule.calls, bucket.left + (now - bucket.at) * rule.calls / rule.seconds)
        bucket.at = now
        self._buckets.move_to_end(key)
        self._forget(now)
        return bucket

    def _forget(self, now: float) -> None:
        """Drop a few that nobody has used for so long that they are full, and any that are too many."""
        for _ in range(2):
            (number, whose), bucket = next(iter(self._buckets.items()))
            if now - bucket.at < self._rules[number].seconds and len(self._buckets) <= MAX_BUCKETS:
                return
            del self._buckets[(number, whose)]
