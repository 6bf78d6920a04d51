"""Refreshes a person's tokens: each refresh consumes a refresh token and stores the next one.

Several processes of one user share a login: the drive's daemon and commands.  A process that needs a token
takes the lock and first checks whether another process has already refreshed it.

Rule: the new token pair is stored before it is used, since the old one is invalid from then on.
"""

import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pydantic
import trio

from cmsfs import crashpoints, errors, process_env
from cmsfs.auth import bearer, refusals, token_store
from cmsfs.client import session
from cmsfs.models.enterprise import tokens
from cmsfs.runtime import clock, threads

# Returns the id of the account's user; None if it is not known yet.
Owner = Callable[[], str | None]

log = logging.getLogger(__name__)

T = TypeVar("T")

# Another process holds the lock for one refresh request; give up after this long.
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.02

# A locked keyring may prompt on a screen that nobody watches.
KEYRING_SECONDS = 20.0


def any_owner() -> str | None:
    """The `Owner` that accepts any user."""
    return None


def refreshing_fetch(
    client: session.Client, keep: token_store.TokenStore, lock: Path, owner: Owner = any_owner
) -> bearer.Fetch:
    """Return the `fetch` for a login stored in `keep`.

    The next call picks up a new login, unless it is of a user other than `owner` or the previous one: one
    person's changes must not be uploaded as another's.  `fetch` raises `NeedsLogin` and `TokensLocked`.
    Cancelled: a refresh that has begun is finished first, so that the new pair is not lost.
    """
    given: str | None = None
    user_id = ""
    # A refreshed login that could not be stored, and the outdated one in the store.
    unwritten: token_store.StoredLogin | None = None
    stale: token_store.StoredLogin | None = None

    async def last() -> token_store.StoredLogin | None:
        if unwritten is None:
            return await _read(keep)
        try:
            found = await _read(keep)
        except errors.RemoteError:
            return unwritten
        return unwritten if found in (None, stale) else found

    async def fetch() -> tokens.Token:
        nonlocal given, stale, unwritten, user_id
        async with locked(lock):
            login = await last()
            if login is None:
                raise errors.NeedsLogin(refusals.NOBODY)
            expected = owner() or user_id
            # A login stored without an id is from an older version, so it is not a new login.
            if expected and login.user_id not in ("", expected):
                raise errors.NeedsLogin(refusals.ANOTHER)
            if login is not unwritten:
                stale = login
            left = login.expires_at - clock.time()
            # If the stored token is the one we returned last, the service has rejected it.
            if left < bearer.EARLY or login.access_token == given:
                with trio.CancelScope(shield=True):
                    login = await _refreshed(client, login)
                    unwritten = None if await _written(keep, login) else login
                left = login.expires_at - clock.time()
        given, user_id = login.access_token, login.user_id or user_id
        return tokens.Token(access_token=pydantic.SecretStr(given), expires_in=max(1, int(left)))

    return fetch


async def renew(keep: token_store.TokenStore, login: token_store.StoredLogin, lock: Path) -> None:
    """Store a new login, and touch the lock file, which a daemon watches (`login_files`)."""
    async with locked(lock):
        await blocking(lambda: keep.write(login))
        os.utime(lock)


async def _read(keep: token_store.TokenStore) -> token_store.StoredLogin | None:
    """Read the stored login; a misconfigured store is reported as `NeedsLogin`, which a new login fixes."""
    try:
        return await blocking(keep.read)
    except errors.ConfigError as error:
        raise errors.NeedsLogin(error.message) from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.TokensLocked(f"The tokens in {keep.title} cannot be read: {error}.") from None


async def _refreshed(client: session.Client, login: token_store.StoredLogin) -> token_store.StoredLogin:
    grant = tokens.RefreshToken(
        client_id=login.client_id,
        client_secret=pydantic.SecretStr(login.client_secret),
        refresh_token=pydantic.SecretStr(login.refresh_token),
    )
    asked_at = clock.time()
    try:
        token = await client.tokens.request(grant)
    except errors.OAuthError as error:
        if error.error == "invalid_grant":
            raise errors.NeedsLogin(refusals.ENDED) from None
        if error.error in ("invalid_client", "unauthorized_client"):
            raise errors.NeedsLogin(refusals.REFUSED) from None
        raise
    crashpoints.reached(crashpoints.Point.TOKENS_GIVEN)
    following = token.refresh_token or pydantic.SecretStr(login.refresh_token)
    return replace(
        login,
        access_token=token.access_token.get_secret_value(),
        refresh_token=following.get_secret_value(),
        expires_at=asked_at + token.expires_in,
    )


async def _written(keep: token_store.TokenStore, login: token_store.StoredLogin) -> bool:
    """Store the login; False if that fails: this process keeps using it and retries at the next refresh."""
    try:
        await blocking(lambda: keep.write(login))
    except (OSError, errors.CmsfsError) as error:
        log.error(
            "the new tokens cannot be kept in %s: %s; a restart would need a new login", keep.title, error
        )
        return False
    crashpoints.reached(crashpoints.Point.TOKENS_KEPT)
    return True


async def blocking(work: Callable[[], T]) -> T:
    """Run a token store's blocking work in a thread.  Raises `TokensLocked` if it takes too long."""
    try:
        with trio.fail_after(KEYRING_SECONDS):
            return await threads.run_sync(work, abandon_on_cancel=True)
    except trio.TooSlowError:
        message = "The keyring that has the tokens does not answer; is it waiting to be unlocked?"
        raise errors.TokensLocked(message) from None


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Hold the inter-process lock.  Raises `TokensLocked` after a minute of waiting."""
    process_env.private_folder(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with trio.move_on_after(LOCK_SECONDS) as patience:
            while not _try_lock(fd):  # noqa: ASYNC110  (a file lock has no event to wait for)
                await trio.sleep(LOCK_POLL_SECONDS)
        if patience.cancelled_caught:
            raise errors.TokensLocked(f"Another process holds the tokens ({path}) and does not let go.")
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
