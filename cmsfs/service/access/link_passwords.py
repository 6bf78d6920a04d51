"""Passwords of shared links: hashing, and throttling of guesses.

Kept as scrypt hashes, each with its salt, in the link's terms.  A client sends the password along with every
request; that it was right a moment ago is remembered, so that it costs something only once.

Rule: no guess is hashed that has to wait (see attempt_limits.py).
"""

import hashlib
import hmac
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from cmsfs.runtime import chance
from cmsfs.service import problems
from cmsfs.service.storage.shared.attempt_limits import Attempts


@dataclass(frozen=True, slots=True)
class Guesser:
    """Who names passwords: a user, or an address."""

    attempts: Attempts
    name: str


def salted(password: str) -> str:
    """What the terms of a link keep of its password."""
    salt = chance.token_hex(8)
    return f"{salt}:{_hash(salt, password)}"


def check(terms: dict[str, Any], given: str | None, who: Guesser | None = None) -> None:
    """403 unless this is the password of a link with these terms, if it has one.

    429 if `who` has to wait after wrong ones.
    """
    stored = terms["password"]
    if stored is None:
        return
    if given is not None:
        mark = hmac.digest(_KEY, f"{stored}\0{given}".encode("utf-8", "replace"), "sha256")
        if mark in _right:
            return
        salt, _, expected = stored.partition(":")
        _take(who, salt)
        if hmac.compare_digest(_hash(salt, given), expected):
            if who is not None:
                who.attempts.forgive(who.name, f"link:{salt}")
            _right[mark] = None
            if len(_right) > _MAX_RIGHT:
                _right.popitem(last=False)
            return
    said = "The shared link has a password, and this is not it."
    raise problems.Refused(403, "incorrect_shared_item_password", said)


def _take(who: Guesser | None, salt: str) -> None:
    wait = 0.0 if who is None else who.attempts.take(who.name, f"link:{salt}")
    if wait:
        raise problems.Refused(
            429,
            "rate_limit_exceeded",
            "Too many wrong passwords; try again later.",
            headers={"Retry-After": str(math.ceil(wait))},
        )


def _hash(salt: str, password: str) -> str:
    # People choose these: it shall cost something to try many.  10 ms; it happens on the loop.
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt.encode(), n=4096, r=8, p=1).hex()


# Hashes, under a key of this process, of passwords that were right, the oldest first.
_right: OrderedDict[bytes, None] = OrderedDict()
_MAX_RIGHT = 1000
_KEY = chance.token_bytes(32)
