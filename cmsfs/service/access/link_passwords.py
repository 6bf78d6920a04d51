"""Passwords of shared links: hashing, and throttling of guesses.

The link's terms hold a scrypt hash and its salt.  A client sends the password with every request; a correct
one is remembered, so that the hash is computed only once.

Rule: a throttled guess is not hashed (see attempt_limits.py).
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
    """The source of password attempts: a user, or an address."""

    attempts: Attempts
    name: str


def hash_with_salt(password: str) -> str:
    """Return the salted hash that a link's terms store."""
    salt = chance.token_hex(8)
    return f"{salt}:{_hash(salt, password)}"


def check(terms: dict[str, Any], given: str | None, who: Guesser | None = None) -> None:
    """Raise 403 unless this is the password of the link with these terms, if it has one.

    429 if `who` has to wait after wrong attempts.
    """
    stored = terms["password"]
    if stored is None:
        return
    if given is not None:
        mark = hmac.digest(_KEY, f"{stored}\0{given}".encode("utf-8", "replace"), "sha256")
        if mark in _verified:
            return
        salt, _, expected = stored.partition(":")
        _throttle(who, salt)
        if hmac.compare_digest(_hash(salt, given), expected):
            if who is not None:
                who.attempts.forgive(who.name, f"link:{salt}")
            _verified[mark] = None
            if len(_verified) > _MAX_VERIFIED:
                _verified.popitem(last=False)
            return
    message = "The shared link has a password, and this is not it."
    raise problems.Refused(403, "incorrect_shared_item_password", message)


def _throttle(who: Guesser | None, salt: str) -> None:
    wait = 0.0 if who is None else who.attempts.take(who.name, f"link:{salt}")
    if wait:
        raise problems.Refused(
            429,
            "rate_limit_exceeded",
            "Too many wrong passwords; try again later.",
            headers={"Retry-After": str(math.ceil(wait))},
        )


def _hash(salt: str, password: str) -> str:
    # People choose these passwords, so guessing must be slow: 10 ms each; this runs on the event loop.
    return hashlib.scrypt(password.encode("utf-8", "replace"), salt=salt.encode(), n=4096, r=8, p=1).hex()


# HMACs, with a key of this process, of correct passwords, oldest first.
_verified: OrderedDict[bytes, None] = OrderedDict()
_MAX_VERIFIED = 1000
_KEY = chance.token_bytes(32)
