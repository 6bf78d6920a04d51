"""Stores a person's tokens between runs: in the session's keyring, or in a file with mode 0600.

One `StoredLogin` for each account: the application that asked for consent, the refresh token, and the last
access token, so that a command does not consume a refresh token for every request.  `open_token_store`
returns the store that the settings name.

Rule: a new refresh token is on disk before it is used; a file that others can read is rejected, not repaired.
"""

import json
import os
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Protocol

from cmsfs import config, durability, errors, process_env

SERVICE = "cmsfs"


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """The tokens and identity of a login."""

    client_id: str
    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    access_token: str = field(repr=False)
    expires_at: float  # of the access token, seconds since the epoch
    user_id: str = ""  # the user's id at the service


class TokenStore(Protocol):
    """Where a login is stored.  All methods block, a keyring perhaps until it is unlocked: call them in a
    thread.

    `read` raises `TokensLocked` if the store does not answer, `ConfigError` if it must not be used.
    """

    @property
    def title(self) -> str: ...
    def read(self) -> StoredLogin | None: ...
    def write(self, kept: StoredLogin) -> None: ...
    def clear(self) -> None: ...


class FileTokenStore:
    """A file that only this user can read, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def title(self) -> str:
        return f"the file {self._path}"

    def read(self) -> StoredLogin | None:
        try:
            with self._path.open(encoding="utf-8") as file:
                found = os.fstat(file.fileno())
                if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid != os.geteuid():
                    raise errors.ConfigError(
                        f"Others can read the tokens in {self._path}: log in anew, after `cmsfs logout`."
                    )
                return _parsed(file.read(), self.title)
        except FileNotFoundError:
            return None

    def write(self, kept: StoredLogin) -> None:
        process_env.private_folder(self._path.parent)
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(kept)))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._path)
        durability.sync(self._path.parent)

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)
        self._path.with_suffix(".new").unlink(missing_ok=True)


class KeyringTokenStore:
    """Stores tokens in the session's keyring, through the library `keyring`."""

    def __init__(self, account: str) -> None:
        self._account = account

    @property
    def title(self) -> str:
        return "the keyring of the session"

    def read(self) -> StoredLogin | None:
        import keyring  # imported here, since the import searches for backends
        from keyring import errors as keyring_errors

        try:
            found = keyring.get_password(SERVICE, self._account)
        except keyring_errors.KeyringError as error:
            raise _locked(error) from None
        return None if found is None else _parsed(found, self.title)

    def write(self, kept: StoredLogin) -> None:
        import keyring
        from keyring import errors as keyring_errors

        try:
            keyring.set_password(SERVICE, self._account, json.dumps(asdict(kept)))
        except keyring_errors.KeyringError as error:
            raise _locked(error) from None

    def clear(self) -> None:
        import keyring
        from keyring import errors as keyring_errors

        try:
            keyring.delete_password(SERVICE, self._account)
        except keyring_errors.PasswordDeleteError:
            pass  # nothing was stored
        except keyring_errors.KeyringError as error:
            raise _locked(error) from None


def open_token_store(settings: config.Settings) -> TokenStore:
    """Open the store that the settings name; `auto` is the keyring if there is a usable one, else the
    file."""
    if settings.token_store == "keyring" or (settings.token_store == "auto" and has_keyring()):
        if not is_installed():
            raise errors.ConfigError("token_store is keyring, but the library `keyring` is not installed.")
        return KeyringTokenStore(settings.account)
    return FileTokenStore(config.Paths(settings.account).token)


def is_installed() -> bool:
    """Whether the `keyring` library is installed; it is an optional extra."""
    try:
        import keyring  # noqa: F401
    except ImportError:
        return False
    return True


def has_keyring() -> bool:
    """Whether this session has a usable keyring; one that fails, or a null backend, does not count."""
    if not is_installed():
        return False
    import keyring
    from keyring import errors as keyring_errors

    try:
        chosen = keyring.get_keyring()
        if chosen.priority < 1:
            return False
        keyring.get_password(SERVICE, "probe")
    except (keyring_errors.KeyringError, RuntimeError, OSError):
        return False
    return True


def _parsed(text: str, where: str) -> StoredLogin | None:
    try:
        document = json.loads(text)
        document = {"user_id": ""} | document
        return StoredLogin(**{one.name: document[one.name] for one in fields(StoredLogin)})
    except (ValueError, TypeError, KeyError):
        raise errors.ConfigError(
            f"What is in {where} are no tokens: `cmsfs login` makes them anew."
        ) from None


def _locked(error: Exception) -> errors.TokensLocked:
    return errors.TokensLocked(
        f"The keyring that has the tokens does not answer ({type(error).__name__}): unlock it."
    )
