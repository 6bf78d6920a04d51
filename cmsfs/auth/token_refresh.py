"""Refreshes a person's tokens: each refresh consumes a refresh token and stores the next one.

Several processes of one user share a login: the drive's daemon, and commands beside it.  Whoever needs a
token takes the lock, and looks first whether another has fetched one already.

Rule: the new pair is kept before it is used, for the old one is worthless from then on.
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

# The id of the user who is known to be the account's; None as long as nobody is.
Owner = Callable[[], str | None]

log = logging.getLogger(__name__)

T = TypeVar("T")

# A refresh of somebody else takes a request; then it is ours to wait no longer.
LOCK_SECONDS = 60.0
LOCK_POLL_SECONDS = 0.02

# A keyring that is locked may ask on a screen where nobody sits.
KEYRING_SECONDS = 20.0


def any_owner() -> str | None:
    """The `Owner` of what may be anybody's."""
    return None


def refreshing_fetch(
    client: session.Client, keep: token_store.TokenStore, lock: Path, owner: Owner = any_owner
) -> bearer.Fetch:
    """The `fetch` for a login in `keep`.

    A login that was made anew meanwhile is taken up by the next call; not one of somebody else than `owner`
    or than before: what one person changed is not to be sent as another.  Raises `NeedsLogin` and
    `TokensLocked`.  Cancelled: a refresh that has begun is finished first, so that the new pair is not lost.
    """
    given: str | None = None
    whose = ""
    # What could not be kept, and what was read in its place.
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
        nonlocal given, stale, unwritten, whose
        async with locked(lock):
            login = await last()
            if login is None:
                raise errors.NeedsLogin(refusals.NOBODY)
            expected = owner() or whose
            # A login kept without an id is from before there were ids, and no newer than any that was used.
            if expected and login.user_id not in ("", expected):
                raise errors.NeedsLogin(refusals.ANOTHER)
            if login is not unwritten:
                stale = login
            left = login.expires_at - clock.time()
            # Asked again for what we gave out: it was refused.
            if left < bearer.EARLY or login.access_token == given:
                with trio.CancelScope(shield=True):
                    login = await _refreshed(client, login)
                    unwritten = None if await _written(keep, login) else login
                left = login.expires_at - clock.time()
        given, whose = login.access_token, login.user_id or whose
        return tokens.Token(access_token=pydantic.SecretStr(given), expires_in=max(1, int(left)))

    return fetch


async def renew(keep: token_store.TokenStore, login: token_store.StoredLogin, lock: Path) -> None:
    """Keep a login that was made anew, and leave the sign that a daemon looks for (`login_files`)."""
    async with locked(lock):
        await blocking(lambda: keep.write(login))
        os.utime(lock)


async def _read(keep: token_store.TokenStore) -> token_store.StoredLogin | None:
    """What is kept; whatever is wrong with the place is a matter of the login, which a new one mends."""
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
    """Whether it is kept; otherwise this process goes on with it, and tries again at the next refresh."""
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
    """What a keep does, in a thread.  Raises `TokensLocked` if it takes too long."""
    try:
        with trio.fail_after(KEYRING_SECONDS):
            return await threads.run_sync(work, abandon_on_cancel=True)
    except trio.TooSlowError:
        said = "The keyring that has the tokens does not answer; is it waiting to be unlocked?"
        raise errors.TokensLocked(said) from None


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """One process at a time.  Raises `TokensLocked` after a minute."""
    process_env.private_folder(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with trio.move_on_after(LOCK_SECONDS) as patience:
            while not _try_lock(fd):  # noqa: ASYNC110  (another process's lock tells nobody)
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
