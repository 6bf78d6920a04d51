"""Passwords of users: hashing and verification.

Stored as scrypt hashes with their salt and parameters.  Guesses are throttled by their source (see
attempt_limits.py), so that other users can still log in.

Rule: an unknown login takes as long as a wrong password, and gives the same response.
"""

import base64
import hashlib
import hmac
from sqlite3 import Connection

import trio

from cmsfs.runtime import chance, threads
from cmsfs.service.storage.store import Store

# 32 MiB and 80 ms per attempt; two at a time, so that attempts cannot fill the memory.
LOG_N, _R, _P = 15, 8, 1
_MAX_MEMORY = 64 * 1024 * 1024
_AT_ONCE = trio.CapacityLimiter(2)

MAX_LENGTH = 1024


def hashed(password: str) -> str:
    """Return the stored hash of a password.  Slow: not on the event loop."""
    salt = chance.token_bytes(16)
    parts = (salt, _derive(password, salt, LOG_N, _R, _P))
    return "$".join(["scrypt", f"{LOG_N},{_R},{_P}", *(base64.b64encode(part).decode() for part in parts)])


def store_hash(conn: Connection, user: int, password_hash: str) -> None:
    """Set a user's password."""
    conn.execute(
        "INSERT INTO password (account, hash) VALUES (?, ?)"
        " ON CONFLICT (account) DO UPDATE SET hash = excluded.hash",
        (user, password_hash),
    )


async def check(store: Store, login: str, password: str, *, who: str = "") -> int | None:
    """Return the id of the user who logs in; None for a wrong login or password, or if throttled.

    `who` is the source of the attempt.  The attempt is counted before it is checked: parallel attempts do not
    get around the throttling.
    """
    known = _find(store, login)
    # All logins and aliases of a user share one limit.
    what = f"login:{login.casefold()[:MAX_LENGTH]}" if known is None else f"user:{known[0]}"
    user, stored = None, _dummy_hash()
    if not store.attempts.take(who, what):
        user, stored = known or (None, stored)
    right = await threads.run_sync(_matches, password, stored, limiter=_AT_ONCE)
    if not right or user is None:
        return None
    store.attempts.forgive(who, what)
    return user


def _find(store: Store, login: str) -> tuple[int, str] | None:
    found = store.read(
        "SELECT password.* FROM password JOIN account ON account.id = password.account"
        " WHERE account.status != 'inactive'"
        " AND (account.login = ?1 OR account.id = (SELECT account FROM email_alias WHERE email = lower(?1)))",
        login,
    )
    return (found[0]["account"], found[0]["hash"]) if found else None


def _matches(password: str, stored: str) -> bool:
    _, parameters, salt, expected = stored.split("$")
    log_n, r, p = (int(number) for number in parameters.split(","))
    actual = _derive(password, base64.b64decode(salt), log_n, r, p)
    return hmac.compare_digest(actual, base64.b64decode(expected))


def _derive(password: str, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    secret = password[:MAX_LENGTH].encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=2**log_n, r=r, p=p, maxmem=_MAX_MEMORY)


def _dummy_hash() -> str:
    """Return a hash to compare passwords with if the login does not exist."""
    return f"scrypt${LOG_N},{_R},{_P}$" + "$".join([base64.b64encode(bytes(16)).decode(), "AAAA"])
